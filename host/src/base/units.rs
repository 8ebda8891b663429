//! Units as types, so that a bare integer of time or size never crosses a function boundary.

use std::{fmt, marker::PhantomData, ops::Add, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of time in whole milliseconds, as MCP's `ttlMs` and `pollIntervalMs` count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// `seconds` as milliseconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    /// The same span as the standard library's type.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Millis {
    /// Rounds down; spans over 584 million years become the largest.
    fn from(d: Duration) -> Self {
        Self(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Add for Millis {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.duration()).fmt(f)
    }
}

impl FromStr for Millis {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        humantime::parse_duration(s.trim())
            .map(Self::from)
            .map_err(|e| format!("{s:?} is not a time span such as \"3s\", \"10m\" or \"24h\": {e}"))
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_str(Text("a time span in quotes, such as \"3s\", \"10m\" or \"24h\"", PhantomData))
    }
}

/// Reads a value that is written as text, and says which text where it finds anything else.
struct Text<T>(&'static str, PhantomData<T>);

impl<T: FromStr<Err = String>> de::Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(de::Error::custom)
    }
}

/// A moment: milliseconds since 1970-01-01 UTC, by the host's wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// The time from `earlier` to `self`, or zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    /// RFC 3339 in UTC with milliseconds, as MCP's `createdAt` wants it.
    pub fn rfc3339(self) -> String {
        let t = std::time::UNIX_EPOCH + Duration::from_millis(self.0.min(253_402_300_799_999));
        humantime::format_rfc3339_millis(t).to_string()
    }
}

impl Add<Millis> for UnixMillis {
    type Output = Self;
    fn add(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// A size in bytes, written `"256MiB"` in configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// The size as an index type; sizes over the address space become the largest.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl FromStr for ByteSize {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        s.trim()
            .parse::<bytesize::ByteSize>()
            .map(|b| Self(b.as_u64()))
            .map_err(|e| format!("{s:?} is not a size such as \"64KiB\" or \"256MiB\": {e}"))
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_str(Text("a size in quotes, such as \"64KiB\" or \"256MiB\"", PhantomData))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn sizes_and_spans_read_what_they_write() {
        for text in ["256MiB", "64KiB", "3GiB", "7B"] {
            let size: ByteSize = text.parse().expect("a size");
            assert_eq!(size.to_string(), text);
        }
        for text in ["3s", "10m", "1day", "500ms"] {
            let span: Millis = text.parse().expect("a span");
            assert_eq!(span.to_string(), text);
        }
        assert!("soon".parse::<Millis>().is_err());
        assert!("big".parse::<ByteSize>().is_err());
    }
}
