//! Words and passages.

/// Words shorter than this say little; longer ones are no words.
const WORD: std::ops::RangeInclusive<usize> = 2..=40;
/// A passage ends at a blank line, or where it has this many lines …
const PASSAGE_LINES: usize = 12;
/// … or bytes.
const PASSAGE_BYTES: usize = 1200;

/// The words of a text, in lower case.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| WORD.contains(&word.chars().take(WORD.end() + 1).count()))
        .map(str::to_lowercase)
}

/// Some lines of a file that belong together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lines<'a> {
    /// Number of the first line, from 1.
    pub(crate) first: u32,
    /// How many lines.
    pub(crate) count: u32,
    pub(crate) text: &'a str,
}

/// Cuts a text into passages, none of them blank.
pub(crate) fn passages(text: &str) -> Vec<Lines<'_>> {
    let mut passages = Vec::new();
    // Where the passage in the making starts: byte, line number; and how many lines it has.
    let (mut start, mut first, mut count) = (0, 1, 0);
    let (mut at, mut line_number) = (0, 1);
    for line in text.split_inclusive('\n') {
        let blank = line.trim().is_empty();
        let full = count == PASSAGE_LINES || at - start + line.len() > PASSAGE_BYTES;
        if count > 0 && (blank || full) {
            passages.push(lines(text, (start, at), first, count));
            count = 0;
        }
        if !blank {
            if count == 0 {
                (start, first) = (at, line_number);
            }
            count += 1;
        }
        at += line.len();
        line_number += 1;
    }
    if count > 0 {
        passages.push(lines(text, (start, at), first, count));
    }
    passages
}

fn lines(text: &str, (start, end): (usize, usize), first: u32, count: usize) -> Lines<'_> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    Lines { first, count, text: text[start..end].trim_end() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_case_and_neither_tiny_nor_huge() {
        let huge = "x".repeat(41);
        let text = format!("Ein Weg, a {huge} über-flüssig 42!");
        assert_eq!(words(&text).collect::<Vec<_>>(), ["ein", "weg", "über", "flüssig", "42"]);
    }

    #[test]
    fn passages_end_at_blank_lines() {
        let cut = passages("\none\ntwo\n\n  \nthree\n");
        let cut: Vec<_> = cut.iter().map(|p| (p.first, p.count, p.text)).collect();
        assert_eq!(cut, [(2, 2, "one\ntwo"), (6, 1, "three")]);
    }

    #[test]
    fn long_paragraphs_are_cut_and_no_line_is_lost() {
        let text: String = (0..100).map(|i| format!("line {i}\n")).collect();
        let cut = passages(&text);
        assert_eq!(cut.iter().map(|p| p.count).sum::<u32>(), 100);
        assert!(cut.windows(2).all(|two| two[0].first + two[0].count == two[1].first));
        assert_eq!(passages(&"y".repeat(5000)).len(), 1);
        assert_eq!(passages(" \n\n").len(), 0);
    }
}
