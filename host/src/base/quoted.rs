//! Text as TOML has it, on one line.

use std::fmt::Write as _;

/// `text` as a basic string of TOML.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Into a string it cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `name` as a key of TOML: without quotation marks where it can be.
pub fn quoted_key(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_quoted_is_toml() {
        for text in
            ["", "a", "a b", "\"", "'", "\\", "a\nb", "\r", "\u{7f}\u{1}\u{85}", "ü.=#", "a'\"b", "'''\"\"\""]
        {
            let line = format!("{} = {}", quoted_key(text), quoted(text));
            let table: toml::Table = line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(table[text].as_str(), Some(text), "{line}");
            assert!(!line.contains('\n'));
        }
    }
}
