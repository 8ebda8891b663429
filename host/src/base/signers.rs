//! Signatures of minisign over a file's bytes: whose they are, and whether they are good. Pure.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use minisign_verify::{PublicKey, Signature};

/// Characters of a wrong key that a message quotes: enough to find it, too few to give a secret one away.
const QUOTED: usize = 12;
/// Where a key and a signature have the id of their key: after the name of the algorithm.
const ID: std::ops::Range<usize> = 2..10;

/// Whose signatures count.
#[derive(Clone, Debug)]
pub struct Signers(Vec<(String, PublicKey)>);

/// A good signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The id of the signer's key, as minisign writes it.
    pub key: String,
    /// The comment that is signed with the bytes, as it came: not harmless for a terminal.
    pub comment: String,
}

/// Why a signature does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// The text is none of minisign's.
    #[error("it is no signature of minisign's ({0})")]
    Form(String),
    /// By a key that is none of ours.
    #[error("it was made with the key {0}, which is none of those that count")]
    Stranger(String),
    /// Not of these bytes, or changed.
    #[error("it says that it was made with the key {0}, and is not that key's signature of these bytes")]
    Bad(String),
}

impl Signers {
    /// From public keys, each as the second line of minisign's `.pub` file.
    ///
    /// # Errors
    /// Which one is no key.
    pub fn of(keys: &[String]) -> Result<Self, String> {
        let of = |(n, key): (usize, &String)| {
            let key = key.trim();
            let parsed = PublicKey::from_base64(key).ok().and_then(|parsed| Some((key_id(key)?, parsed)));
            parsed.ok_or_else(|| {
                let start: String = key.chars().take(QUOTED).collect();
                format!(
                    "key {} ({start:?}…) is no public key of minisign: write the second line of its .pub file",
                    n + 1
                )
            })
        };
        keys.iter().enumerate().map(of).collect::<Result<_, _>>().map(Self)
    }

    /// Whose signature of `bytes` the file `signature` is. Takes the form with a hash (minisign's own since 0.10) and the
    /// older one without; neither copies the bytes.
    ///
    /// # Errors
    /// It is nobody's that counts.
    pub fn check(&self, bytes: &[u8], signature: &[u8]) -> Result<Signed, Unsigned> {
        let form = |why: &str| Unsigned::Form(why.to_owned());
        let text = std::str::from_utf8(signature).map_err(|_| form("it is not UTF-8 text"))?;
        let signature = Signature::decode(text).map_err(|e| form(&e.to_string()))?;
        let id = text.lines().nth(1).and_then(key_id).ok_or_else(|| form("it names no key"))?;
        // An id is a random number that anybody may choose: two keys may have the same.
        let mut own = self.0.iter().filter(|(other, _)| *other == id).peekable();
        if own.peek().is_none() {
            return Err(Unsigned::Stranger(id));
        }
        if own.any(|(_, key)| key.verify(bytes, &signature, true).is_ok()) {
            Ok(Signed { key: id, comment: signature.trusted_comment().to_owned() })
        } else {
            Err(Unsigned::Bad(id))
        }
    }
}

/// The id in a key's or a signature's line, as minisign writes it.
fn key_id(line: &str) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(line.trim()).ok()?;
    let id: [u8; 8] = bytes.get(ID)?.try_into().ok()?;
    Some(format!("{:X}", u64::from_le_bytes(id)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: &str = "RWQi1sRGeCYHPH0AghZXRp6Y2ZL2skhtB2KQDvWcb7k7JFZkVNEiId1j";
    const B: &str = "RWRBh83zkh7LiODUPR3m4Q3mvbw7D7/AhiWAYuieGpvJ2H7+XAQ2QO7p";
    const BYTES: &[u8] = b"the bytes";
    /// Of A, with a hash.
    const HASHED: &str = "untrusted comment: signature from minisign secret key
RUQi1sRGeCYHPDYaXGnTOsxCJLEU6ofd5/Lk9oz1wmlC/7z5dYRWMm2cVbfQ1Xv/bLRaapLP490dLXO7eobxAtdCZtkftca42gI=
trusted comment: first\tone
hDdkeLy1fh0euT040Swe0Xe5bTB45AL7u81s2HgN4ol85Hyev2N1XWQYC+tpynnIjG6SyrcxdDo8L5SGcBI0Bw==
";
    /// Of A, without.
    const LEGACY: &str = "untrusted comment: signature from minisign secret key
RWQi1sRGeCYHPICRjh6kDP0DvX+ismSpzEi/F3tetO7yRTLoe728GgV4QrJBNPfYFN9yNjdUUIDI73Z40dLQde58SXJsB96btww=
trusted comment: legacy
Pa0fb/n7DvSY5iudxL1IQeQqonCXZRpnH//GfmsxXqr8OTnZrixJaoXAkbSiU7iFtPyxGwL+4sSHiWZVfHQrAg==
";

    fn signers(keys: &[&str]) -> Signers {
        Signers::of(&keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_signature_is_one_keys_of_these_bytes() {
        let both = signers(&[B, A]);
        let signed = both.check(BYTES, HASHED.as_bytes()).unwrap();
        assert_eq!((signed.key.as_str(), signed.comment.as_str()), ("3C07267846C4D622", "first\tone"));
        assert_eq!(both.check(BYTES, LEGACY.as_bytes()).unwrap().comment, "legacy");
        let stranger = Err(Unsigned::Stranger("3C07267846C4D622".into()));
        assert_eq!(signers(&[B]).check(BYTES, HASHED.as_bytes()), stranger);
        assert_eq!(signers(&[]).check(BYTES, HASHED.as_bytes()), stranger);
        for (bytes, text) in [
            (&b"the bytez"[..], HASHED.to_owned()),
            (b"the bytez", LEGACY.to_owned()),
            (BYTES, HASHED.replace("first", "First")),
            (BYTES, HASHED.replace("DYaXGn", "DYaXGm")),
            (BYTES, HASHED.replace("RUQi", "RWQi")),
            (BYTES, LEGACY.replace("RWQi", "RUQi")),
        ] {
            assert_eq!(
                both.check(bytes, text.as_bytes()),
                Err(Unsigned::Bad("3C07267846C4D622".into())),
                "{text}"
            );
        }
    }

    #[test]
    fn every_cut_of_a_signature_is_refused_in_order() {
        let own = signers(&[A]);
        let whole = HASHED.trim_end();
        for cut in 0..whole.len() {
            assert!(own.check(BYTES, &whole.as_bytes()[..cut]).is_err(), "{cut}");
        }
        for odd in [&b"\xff"[..], b"\n\n\n\n", b"untrusted comment: \nRUQi\ntrusted comment: \n\n"] {
            assert!(matches!(own.check(BYTES, odd), Err(Unsigned::Form(_))));
        }
    }

    #[test]
    fn a_wrong_key_is_named_and_not_shown() {
        for wrong in [
            "",
            "RWQ",
            "RWRTY0IyEQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "untrusted comment: minisign public key",
        ] {
            let reason = Signers::of(&[A.to_owned(), wrong.to_owned()]);
            if let Err(reason) = reason {
                assert!(reason.starts_with("key 2 (") && reason.contains(".pub"), "{reason}");
                assert!(wrong.len() <= QUOTED || !reason.contains(wrong), "{reason}");
            } else {
                // As long as a key: nobody can tell.
                assert_eq!(wrong.len(), A.len());
            }
        }
    }
}
