//! The file of static tokens: their hashes, never they themselves.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{AuthConfig, ConfigError, load::Source};
use crate::base::{Digest, UnixMillis};

/// A file of static tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenFile {
    /// Several may have one name: while a token is rotated, both are its principal's.
    #[serde(rename = "token")]
    pub tokens: Vec<TokenEntry>,
}

/// One static token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TokenEntry {
    /// Whose it is: its bearer is the principal `token:NAME`.
    pub name: String,
    /// SHA-256 of the token. A token has 256 random bits, so that a slow hash would protect nothing.
    pub sha256: Digest,
    /// Its scopes (`[auth.scopes]`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// When it was made, as RFC 3339 writes it; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// When it ends, as RFC 3339 writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

impl TokenFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is no such file, or a name, scope or time in it is none.
    pub fn parse(text: &str, origin: &Path) -> Result<Self, ConfigError> {
        let source = Source { text, origin };
        let file: Self = source.parse()?;
        for entry in &file.tokens {
            entry.check().map_err(|reason| source.wrong(&["token".into()], reason))?;
        }
        Ok(file)
    }

    /// The text of a file.
    pub fn to_text(&self) -> String {
        let head = "# Static tokens of layby: their hashes. Made by `layby token new`; a host reads changes by itself.\n\n";
        // Plain data: it always has a TOML text.
        format!("{head}{}", toml::to_string(self).unwrap_or_default())
    }
}

impl TokenEntry {
    /// One of `auth.tokens`: `NAME:SHA256`.
    ///
    /// # Errors
    /// It is not so written.
    pub fn from_line(line: &str) -> Result<Self, String> {
        // The line may hold a token instead of its hash: it is not repeated.
        let form = "write NAME:SHA256, with the SHA-256 of the token in 64 hexadecimal digits";
        let (name, hash) = line.trim().split_once(':').ok_or(form)?;
        let sha256 = hash.parse().map_err(|_| format!("the hash of {name:?} is none: {form}"))?;
        let entry = Self { name: name.into(), sha256, scopes: Vec::new(), created: None, expires: None };
        entry.check()?;
        Ok(entry)
    }

    /// When it ends, if ever.
    pub fn ends(&self) -> Option<UnixMillis> {
        self.expires.as_deref().and_then(|at| time(at).ok())
    }

    /// Checks what [`TokenFile::parse`] would refuse.
    ///
    /// # Errors
    /// Its name, a scope or its end is none.
    pub fn check(&self) -> Result<(), String> {
        name(&self.name)?;
        for scope in &self.scopes {
            super::check::scope(scope)?;
        }
        self.expires.as_deref().map_or(Ok(()), |at| time(at).map(drop))
    }
}

/// Not empty, not too long, and plain.
fn name(name: &str) -> Result<(), String> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@'));
    if plain && !name.is_empty() && name.len() <= AuthConfig::NAME {
        return Ok(());
    }
    let most = AuthConfig::NAME;
    Err(format!("{name:?} is no name of a token: write 1 to {most} of A-Z, a-z, 0-9, `-`, `_`, `.` and `@`"))
}

fn time(text: &str) -> Result<UnixMillis, String> {
    let wrong = || format!("{text:?} is no time: write it as 2030-01-31T12:00:00Z");
    let at = humantime::parse_rfc3339_weak(text).map_err(|_| wrong())?;
    let since = at.duration_since(std::time::UNIX_EPOCH).map_err(|_| wrong())?;
    Ok(UnixMillis(u64::try_from(since.as_millis()).map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HASH: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn parse(text: &str) -> Result<TokenFile, String> {
        TokenFile::parse(text, Path::new("tokens.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_file_is_read_back_as_it_was_written() {
        let text = format!(
            "[[token]]\nname = \"ci\"\nsha256 = \"{HASH}\"\nscopes = [\"read\"]\nexpires = \"2030-01-01T00:00:00Z\"\n"
        );
        let file = parse(&text).unwrap();
        assert_eq!(file.tokens[0].ends(), Some(UnixMillis(1_893_456_000_000)));
        assert_eq!(parse(&file.to_text()).unwrap(), file);
        assert_eq!(parse("").unwrap(), TokenFile::default());
    }

    #[test]
    fn what_is_wrong_is_said_and_no_token_is_repeated() {
        let entry = |more: &str| parse(&format!("[[token]]\n{more}\n")).unwrap_err();
        assert!(entry("name = \"ci\"").contains("sha256"));
        assert!(entry(&format!("name = \"c i\"\nsha256 = \"{HASH}\"")).contains("no name of a token"));
        assert!(
            entry(&format!("name = \"ci\"\nsha256 = \"{HASH}\"\nexpires = \"soon\"")).contains("no time")
        );
        assert!(entry(&format!("name = \"ci\"\nsha256 = \"{HASH}\"\nscopes = [\"a b\"]")).contains("scope"));
        assert!(TokenEntry::from_line(&format!("ci:{HASH}")).is_ok());
        let why = TokenEntry::from_line("ci:layby_secret").unwrap_err();
        assert!(why.contains("64 hexadecimal digits") && !why.contains("secret"), "{why}");
        assert!(!TokenEntry::from_line("layby_secret").unwrap_err().contains("secret"));
    }
}
