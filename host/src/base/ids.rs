//! Names that cross rooms.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The identity of a task: a random UUID (version 4), so it cannot be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub Uuid);

impl TaskId {
    /// A new one, from the operating system's randomness.
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }
}

impl Default for TaskId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for TaskId {
    type Err = String;
    /// Only the hyphenated lower-case form that we hand out.
    fn from_str(s: &str) -> Result<Self, String> {
        match Uuid::try_parse(s) {
            Ok(id) if id.hyphenated().to_string() == s => Ok(Self(id)),
            _ => Err(format!("{s:?} is not a task id")),
        }
    }
}

/// One start of one host process; the holder of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootId(pub Uuid);

/// The SHA-256 of a component's bytes; its name everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The first 12 hexadecimal digits, for people.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for Digest {
    /// By hand: each call's receipt has one, and the formatter would be a twentieth of a short call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        // Only digits are in it.
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = String;
    /// 64 hexadecimal digits, with or without `sha256:` before them.
    fn from_str(s: &str) -> Result<Self, String> {
        let hex = s.strip_prefix("sha256:").unwrap_or(s);
        let wrong = || format!("{s:?} is not a SHA-256 digest of 64 hexadecimal digits");
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut out = [0; 32];
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(out))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Who is calling: a stable name kept as text (`local`, `token:NAME`, `oauth:ISS|SUB`, `operator`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Principal(std::sync::Arc<str>);

impl Principal {
    /// A loopback peer without a forwarding header.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// A peer that is neither local nor authenticated, where the operator allows that.
    pub fn anonymous() -> Self {
        Self("anonymous".into())
    }

    /// The bearer of a static token. Rotating the token keeps its name.
    pub fn token(name: &str) -> Self {
        Self(format!("token:{name}").into())
    }

    /// The subject of an issuer's access token, or its client where it has no subject.
    pub fn oauth(issuer: &str, subject: &str) -> Self {
        Self(format!("oauth:{issuer}|{subject}").into())
    }

    /// Commands that act on a host's data.
    pub fn operator() -> Self {
        Self("operator".into())
    }

    /// The name, as the store keeps it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True where the caller has said who it is: others are all one principal.
    pub fn is_proven(&self) -> bool {
        self.0.starts_with("token:") || self.0.starts_with("oauth:")
    }

    /// A name read back from the store.
    pub fn from_stored(name: &str) -> Self {
        Self(name.into())
    }

    /// True for the operator, who may see and end every task.
    pub fn is_operator(&self) -> bool {
        &*self.0 == "operator"
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
