//! A request's path, as it is sent and as the loosest server reads it. Pure.
//!
//! Servers differ in what they decode, in which order and how often. A path counts as below a grant's where it is so as it is
//! sent, and where no server's reading of it goes up: whatever could become `..`, or cut the path off, is never let out.

use std::borrow::Cow;

/// How often a path is decoded: who decodes more often than this has its own trouble.
const DECODINGS: usize = 4;

/// A path as it is sent, and as the loosest server reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    sent: String,
    loose: Vec<Vec<u8>>,
}

impl Path {
    /// Reads a path of a URL, whose `.` and `..` have been followed.
    ///
    /// # Errors
    /// Why no path like this is let out.
    pub(super) fn of(sent: &str) -> Result<Self, String> {
        let mut bytes = sent.as_bytes().to_vec();
        for _ in 0..DECODINGS {
            if is_overlong(&bytes) {
                return Err("the path has UTF-8 in more bytes than it needs".to_owned());
            }
            let read = plain(&bytes);
            if let Some(byte) = read.iter().find(|b| b.is_ascii_control()) {
                return Err(format!("the path has an encoded control character, %{byte:02X}"));
            }
            if parts(&read).any(is_up) {
                return Err("the path has an encoded `..`".to_owned());
            }
            let decoded = decoded(&read);
            if decoded == *read {
                let loose = parts(&read).filter(|part| !part.is_empty() && *part != b".");
                return Ok(Self { sent: sent.to_owned(), loose: loose.map(<[u8]>::to_vec).collect() });
            }
            bytes = decoded;
        }
        Err("the path is percent-encoded over and over".to_owned())
    }

    /// True where it begins with all of `start`, which ends with a slash.
    pub(super) fn is_below(&self, start: &Self) -> bool {
        self.sent.starts_with(&start.sent) && self.loose.starts_with(&start.loose)
    }
}

/// What stands between the separators, without parameters.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let part = |part: &[u8]| part.iter().position(|b| *b == b';').unwrap_or(part.len());
    path.split(|b| matches!(b, b'/' | b'\\')).map(move |whole| &whole[..part(whole)])
}

/// True for `..`, and for what some file systems take for it.
fn is_up(part: &[u8]) -> bool {
    let dots = part.trim_ascii();
    dots.len() > 1 && dots.iter().all(|b| matches!(b, b'.' | b' '))
}

/// `bytes` with each `%XX` and `%uXXXX` replaced, once.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let number = |digits: Option<&[u8]>| {
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        let byte = number(bytes.get(at + 1..at + 3)).and_then(|n| u8::try_from(n).ok());
        let wide = match bytes.get(at + 1) {
            Some(b'u' | b'U') => number(bytes.get(at + 2..at + 6)).and_then(char::from_u32),
            _ => None,
        };
        match (b, byte, wide) {
            (b'%', Some(byte), _) => {
                out.push(byte);
                at += 3;
            }
            (b'%', None, Some(wide)) => {
                out.extend_from_slice(wide.encode_utf8(&mut [0; 4]).as_bytes());
                at += 6;
            }
            _ => {
                out.push(b);
                at += 1;
            }
        }
    }
    out
}

/// `bytes` with characters as ASCII that compatibility mappings (NFKC, Windows' best fit) make one of those that
/// structure a path. Nothing that is ASCII is lost by it.
fn plain(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.is_ascii() {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        // All of them have three bytes.
        let found = rest.get(..3).and_then(|c| std::str::from_utf8(c).ok()).and_then(|c| c.chars().next());
        match found.filter(|c| c.len_utf8() == 3).and_then(like) {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                rest = &rest[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(out)
}

/// True where there is UTF-8 in more bytes than it needs: for lenient decoders it is any character.
fn is_overlong(bytes: &[u8]) -> bool {
    let starts = |pair: &[u8]| matches!(pair, [0xe0, 0x80..=0x9f] | [0xf0, 0x80..=0x8f]);
    bytes.iter().any(|b| matches!(b, 0xc0 | 0xc1)) || bytes.windows(2).any(starts)
}

/// The ASCII text for which `c` can be taken.
fn like(c: char) -> Option<String> {
    let text = match c {
        '\u{2024}' | '\u{fe52}' => ".",
        '\u{2025}' => "..",
        '\u{2026}' => "...",
        '\u{2044}' | '\u{2215}' | '\u{29f8}' => "/",
        '\u{2216}' | '\u{fe68}' | '\u{29f5}' | '\u{29f9}' => "\\",
        '\u{fe6a}' => "%",
        '\u{fe54}' => ";",
        // Fullwidth forms.
        '\u{ff01}'..='\u{ff5e}' => {
            return char::from_u32(u32::from(c) - 0xfee0).map(String::from);
        }
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_server_can_take_for_another_path() {
        for path in [
            "/",
            "/v1/x",
            "/v1//x",
            "/v1/a;b=c",
            "/v1/100%25",
            "/v1/%E4%BD%A0",
            "/v1/group%2Fproject",
            "/v1/a...b",
            "/v1/..a",
            "/v1/.well-known",
            "/v1/a..",
            "/v1/%F0%9F%98%80",
            "/v1/caf%E9",
            "/v1/%E9%80%80",
            "/v1/a%20b",
            "/v1/%25units",
            "/v1/a%EF%BC%8Eb",
            "/v1/%EF%BC%81",
        ] {
            assert!(Path::of(path).is_ok(), "{path}: {:?}", Path::of(path));
        }
    }

    #[test]
    fn what_some_server_reads_as_going_up_or_cuts_off() {
        for path in [
            "/v1/..%2fx",
            "/v1/..%5cx",
            "/v1/..;/x",
            "/v1/..%3b/x",
            "/v1/%252e%252e/x",
            "/v1/.%00./x",
            "/v1/..%00/x",
            "/v1/x%00.png",
            "/v1/x%0d%0aHost:y",
            "/v1/.%09./x",
            "/v1/x%7f",
            "/v1/%c0%ae%c0%ae/x",
            "/v1/%c0%2e%c0%2e/x",
            "/v1/..%c0%afx",
            "/v1/..%c1%9cx",
            "/v1/..%c1%1cx",
            "/v1/%e0%80%ae%e0%80%ae/x",
            "/v1/..%f0%80%80%afx",
            "/v1/%u002e%u002e/x",
            "/v1/..%u2215x",
            "/v1/%25u002e%25u002e/x",
            "/v1/%ef%bc%8e%ef%bc%8e/x",
            "/v1/..%ef%bc%8fx",
            "/v1/%e2%80%a5/x",
            "/v1/%e2%80%a4./x",
            "/v1/.. /x".trim_end(),
            "/v1/..%20/x",
            "/v1/.../x",
            "/v1/..;/..%2fv1/x",
            "/v1/%2e%2e%2fv1/x",
            "/v1/%25%32%65%25%32%65/x",
        ] {
            assert!(Path::of(path).is_err(), "{path}: {:?}", Path::of(path));
        }
    }

    proptest! {
        /// Each step that a server may or may not take leaves it below its start.
        #[test]
        fn every_reading_stays_below(pieces in prop::collection::vec("(\\.|%2e|%2E|/|%2f|;|%5c|%25|%c0%ae|%c1|%ef%bc%85|%ef%bc%8f|%00|u002e|2|e|f|a|v1| |%20){1,4}", 0..8)) {
            let sent = format!("/v1/{}", pieces.join("/"));
            prop_assume!(!sent.split('/').any(|part| matches!(part.to_lowercase().replace("%2e", ".").as_str(), "." | "..")));
            if let Ok(path) = Path::of(&sent) {
                prop_assert!(path.is_below(&Path::of("/v1/").unwrap()));
                let mut readings = vec![sent.into_bytes()];
                for _ in 0..6 {
                    for bytes in std::mem::take(&mut readings) {
                        for part in bytes.split(|b| matches!(b, b'/' | b'\\')) {
                            prop_assert_ne!(part, b"..");
                            prop_assert_ne!(part.split(|b| *b == b';').next().unwrap(), b"..");
                        }
                        let next = decoded(&bytes);
                        if next != bytes {
                            readings.push(next);
                        }
                    }
                }
            }
        }
    }
}
