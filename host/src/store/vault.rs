//! What of the database only its hosts may read: the environment and configuration of plugins, in headers of journals
//! and in rows of policies. It is sealed under a key that is outside the database, so that who has a copy of that, or an
//! export, has none of it. Pure but for the file of the key.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};

use crate::{
    base::{KEY_BYTES, make_key, own_folder, read_keys},
    config::{Config, StoreConfig},
};

/// Bytes of a key's id: two keys never have the same by chance.
const ID_BYTES: usize = 6;
/// What to do where there is no whole key.
const MEND: &str = "put back the one that was there: without it, tasks under way whose plugins have an environment cannot go on";
/// How to make one.
const MAKE: &str = "store.seal-key must name a file that only this user can read, the same on all hosts of the database; \
                    `(umask 077; head -c 32 /dev/urandom > FILE)` makes one";

/// What is sealed: under a key for that alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sealed {
    /// A part of the settings of a run, which its seed names.
    Settings,
    /// A plugin's policy, by its name.
    Policy,
}

impl Sealed {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Settings => b"settings",
            Self::Policy => b"policy",
        }
    }
}

/// The keys of this host. Hosts that share a database must have the same.
pub struct Vault {
    /// Seals.
    first: Key,
    /// Open too what was sealed before.
    others: Vec<Key>,
    /// Ids of keys that were missed, and for what: said once each.
    missed: Mutex<BTreeSet<(Sealed, String)>>,
}

struct Key {
    /// Tells keys apart, and says nothing of them.
    id: String,
    bytes: [u8; KEY_BYTES],
}

/// Why something sealed was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// It needs another key.
    #[error(
        "it is sealed under another key (id {wanted}; here is {here}): give all hosts of the database the same \
         `store.seal-key`, or put the key of that id back"
    )]
    OtherKey {
        /// The id of the key that it was sealed under.
        wanted: String,
        /// Those of the keys here.
        here: String,
    },
    /// It is not as it was written, or not where.
    #[error("what is sealed of it is damaged")]
    Damaged,
}

impl Vault {
    /// With the file of keys that `config` names, or the one in the data folder, which is made where it is missing.
    ///
    /// # Errors
    /// It cannot be read or made, is short, or others can read it. One that is named must be there.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        let path = path(config);
        if is_named(config) {
            return Self::read(config).context(MAKE);
        }
        if let Some(folder) = path.parent() {
            own_folder(folder)?;
        }
        make_key(&path)?;
        Self::read(config)
    }

    /// The same; none where there is no file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn find(config: &Config) -> anyhow::Result<Option<Self>> {
        if path(config).try_exists()? { Self::read(config).map(Some) } else { Ok(None) }
    }

    fn read(config: &Config) -> anyhow::Result<Self> {
        let mut keys = read_keys(&path(config), StoreConfig::SEAL_KEYS, MEND)?.into_iter();
        let first = keys.next().context("there is no key")?;
        Ok(Self::of(first, keys))
    }

    /// With `first`, which seals, and `others`, which only open.
    pub(crate) fn of(first: [u8; KEY_BYTES], others: impl IntoIterator<Item = [u8; KEY_BYTES]>) -> Self {
        let others = others.into_iter().map(Key::of).collect();
        Self { first: Key::of(first), others, missed: Mutex::default() }
    }

    /// `text` sealed as `what` of whatever `owner` names: `ID.BASE64`. The same each time.
    pub fn seal(&self, what: Sealed, owner: &[u8], text: &[u8]) -> String {
        self.first.seal(what, owner, text)
    }

    /// What was sealed as `what` of `owner`.
    ///
    /// # Errors
    /// See [`Closed`].
    pub fn unseal(&self, what: Sealed, owner: &[u8], sealed: &str) -> Result<Vec<u8>, Closed> {
        let (id, text) = sealed.split_once('.').ok_or(Closed::Damaged)?;
        let keys = || std::iter::once(&self.first).chain(&self.others);
        let Some(key) = keys().find(|key| key.id == id) else {
            let here: Vec<&str> = keys().map(|key| key.id.as_str()).collect();
            return Err(Closed::OtherKey { wanted: id.to_owned(), here: here.join(", ") });
        };
        key.unseal(what, owner, text).ok_or(Closed::Damaged)
    }

    /// Logs that `whose` stays closed, which is `what`. Once for each key, and then only for who looks closely.
    pub fn tell(&self, what: Sealed, whose: &str, closed: &Closed) {
        let news = match closed {
            Closed::OtherKey { wanted, .. } => {
                let missed = (what, wanted.clone());
                self.missed.lock().unwrap_or_else(PoisonError::into_inner).insert(missed)
            }
            Closed::Damaged => true,
        };
        if news {
            tracing::error!("{whose}: {closed}");
        } else {
            tracing::debug!("{whose}: {closed}");
        }
    }
}

impl Key {
    fn of(bytes: [u8; KEY_BYTES]) -> Self {
        let id = derived(&bytes, &[b"id"])[..ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { id, bytes }
    }

    fn seal(&self, what: Sealed, owner: &[u8], text: &[u8]) -> String {
        let key = self.of_owner(what, owner);
        // By the text itself: two texts never share one under the key of an owner, and the same text looks the same.
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&derived(&key, &[b"nonce", text])[..NONCE_LEN]);
        let mut sealed = text.to_vec();
        let done = cipher(&key).and_then(|cipher| {
            let nonce = Nonce::assume_unique_for_key(nonce);
            cipher.seal_in_place_append_tag(nonce, Aad::from(owner), &mut sealed).ok()
        });
        if done.is_none() {
            // Cannot be: the key has the right length, and the text is far shorter than a cipher's bound. It must
            // not be kept open then.
            sealed.clear();
        }
        format!("{}.{}", self.id, STANDARD_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    fn unseal(&self, what: Sealed, owner: &[u8], text: &str) -> Option<Vec<u8>> {
        let mut bytes = STANDARD_NO_PAD.decode(text).ok()?;
        let (nonce, text) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
        let cipher = cipher(&self.of_owner(what, owner))?;
        let opened = cipher.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(owner), text);
        opened.ok().map(|text| text.to_vec())
    }

    /// The key of one owner's texts.
    fn of_owner(&self, what: Sealed, owner: &[u8]) -> [u8; KEY_BYTES] {
        derived(&self.bytes, &[what.name(), owner])
    }
}

/// A key made of another: HMAC-SHA-256 over all parts, each with its length.
fn derived(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> [u8; KEY_BYTES] {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    let mut made = [0; KEY_BYTES];
    // As long: SHA-256 has 32 bytes.
    made.copy_from_slice(mac.sign().as_ref());
    made
}

fn cipher(key: &[u8; KEY_BYTES]) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, key).ok().map(LessSafeKey::new)
}

fn is_named(config: &Config) -> bool {
    !config.store.seal_key.as_os_str().is_empty()
}

/// Where the keys are.
fn path(config: &Config) -> PathBuf {
    if is_named(config) {
        config.store.seal_key.clone()
    } else {
        config.serve.data.join("keys").join("seal.key")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    const ONE: &[u8] = b"a run's seed";
    const TEXT: &[u8] = b"a-secret-place";

    fn vault(n: u8) -> Vault {
        Vault::of([n; KEY_BYTES], [])
    }

    #[test]
    fn what_is_sealed_opens_as_what_it_is_for_its_owner_alone() {
        let sealed = vault(1).seal(Sealed::Settings, ONE, TEXT);
        assert_eq!(vault(1).unseal(Sealed::Settings, ONE, &sealed).unwrap(), TEXT);
        assert_eq!(vault(1).seal(Sealed::Settings, ONE, TEXT), sealed);
        assert!(!sealed.contains("secret"));
        for (what, owner) in [(Sealed::Settings, &b"another's"[..]), (Sealed::Policy, ONE)] {
            assert_ne!(vault(1).seal(what, owner, TEXT), sealed);
            assert_eq!(vault(1).unseal(what, owner, &sealed), Err(Closed::Damaged));
        }
        let empty = vault(1).seal(Sealed::Policy, b"", b"");
        assert_eq!(vault(1).unseal(Sealed::Policy, b"", &empty).unwrap(), b"");
    }

    #[test]
    fn nothing_that_was_changed_opens() {
        let vault = vault(1);
        let sealed = vault.seal(Sealed::Settings, ONE, TEXT);
        let id = sealed.find('.').unwrap();
        for n in id + 1..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[n] = if bytes[n] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(vault.unseal(Sealed::Settings, ONE, &changed), Err(Closed::Damaged), "{n}");
            assert!(vault.unseal(Sealed::Settings, ONE, &sealed[..n]).is_err(), "{n}");
        }
        for bad in ["", ".", "a", "no.base64!"] {
            assert!(vault.unseal(Sealed::Settings, ONE, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn another_key_is_named_and_an_older_one_opens() {
        let sealed = vault(1).seal(Sealed::Settings, ONE, TEXT);
        let (wanted, here) = (vault(1).first.id, vault(2).first.id);
        assert_ne!(wanted, here);
        let closed = vault(2).unseal(Sealed::Settings, ONE, &sealed).unwrap_err();
        let said = closed.to_string();
        assert!(said.contains(&wanted) && said.contains(&here) && said.contains("store.seal-key"), "{said}");
        assert_eq!(closed, Closed::OtherKey { wanted, here });
        // Rotated: the new one first, and the one before it.
        let both = Vault::of([2; KEY_BYTES], [[1; KEY_BYTES]]);
        assert_eq!(both.unseal(Sealed::Settings, ONE, &sealed).unwrap(), TEXT);
        let anew = both.seal(Sealed::Settings, ONE, TEXT);
        assert_eq!(vault(2).unseal(Sealed::Settings, ONE, &anew).unwrap(), TEXT);
    }

    #[test]
    fn the_file_is_made_in_the_data_folder_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.serve.data = folder.path().join("data");
        assert!(Vault::find(&config).unwrap().is_none());
        let first = Vault::open(&config).unwrap().first.bytes;
        assert_eq!(Vault::open(&config).unwrap().first.bytes, first);
        assert_eq!(Vault::find(&config).unwrap().unwrap().first.bytes, first);
        let (made, shared) = (config.serve.data.join("keys/seal.key"), folder.path().join("shared.key"));
        config.store.seal_key = shared.clone();
        assert!(Vault::find(&config).unwrap().is_none());
        let refused = format!("{:#}", Vault::open(&config).err().unwrap());
        assert!(refused.contains("store.seal-key") && refused.contains("shared.key"), "{refused}");
        fs::copy(&made, &shared).unwrap();
        assert_eq!(Vault::open(&config).unwrap().first.bytes, first);
        fs::write(&shared, [[7; KEY_BYTES], first].concat()).unwrap();
        let both = Vault::open(&config).unwrap();
        assert_eq!((both.first.bytes, both.others[0].bytes), ([7; KEY_BYTES], first));
        fs::write(&shared, [7; 33]).unwrap();
        assert!(format!("{:#}", Vault::open(&config).err().unwrap()).contains("33 bytes"));
    }
}
