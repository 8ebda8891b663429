//! Text from plugins and clients, made harmless for a terminal or a log line.

/// True for characters that change how a terminal shows *other* text: control characters, escapes,
/// and Unicode's direction and format controls.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn push_neutral(out: &mut String, c: char) {
    if is_active(c) {
        out.extend(c.escape_unicode());
    } else {
        out.push(c);
    }
}

/// `text` on one line: every control, escape, direction or format character becomes its `\u{…}`
/// form, and line breaks and tabs become spaces.
pub fn neutral_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' | '\n' | '\t' => out.push(' '),
            c => push_neutral(&mut out, c),
        }
    }
    out
}

/// `text` with its line breaks and tabs kept, and everything else as in [`neutral_line`].
pub fn neutral_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\t' => out.push(c),
            c => push_neutral(&mut out, c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_active_survives() {
        assert_eq!(neutral_line("a\x1b[31mred\x07"), "a\\u{1b}[31mred\\u{7}");
        assert_eq!(neutral_line("one\r\ntwo\tthree\rfour"), "one two three four");
        assert_eq!(neutral_line("abc\u{202e}cba\u{2066}x\u{200b}"), "abc\\u{202e}cba\\u{2066}x\\u{200b}");
        assert_eq!(neutral_line("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(neutral_text("a\n\tb\r\nc\rd"), "a\n\tb\nc\\u{d}d");
        assert_eq!(neutral_line("Grüße, 世界 🦀"), "Grüße, 世界 🦀");
        for c in ('\0'..=char::MAX).filter(|c| is_active(*c)) {
            assert!(!neutral_line(&c.to_string()).chars().any(is_active));
        }
    }
}
