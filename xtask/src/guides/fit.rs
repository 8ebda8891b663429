//! Whether what a command printed is what a page says.

use std::fmt::Write as _;

use super::page::Expected;

/// Stands for anything within a line, and alone for any lines.
const ANYTHING: char = '…';

/// Compares; the difference names lines of the page.
///
/// # Errors
/// They differ: a text that shows both.
pub(super) fn fits(expected: &Expected, printed: &str) -> Result<(), String> {
    let wanted: Vec<&str> = expected.text.lines().map(str::trim_end).collect();
    let got: Vec<&str> = printed.lines().map(str::trim_end).collect();
    // reach[i][j]: the first i wanted lines can take the first j printed ones.
    let mut reach = vec![vec![false; got.len() + 1]; wanted.len() + 1];
    reach[0][0] = true;
    for (i, want) in wanted.iter().enumerate() {
        for j in 0..=got.len() {
            reach[i + 1][j] = if want.trim() == ANYTHING.to_string() {
                reach[i][j] || (j > 0 && reach[i + 1][j - 1])
            } else {
                j > 0 && reach[i][j - 1] && line_fits(want, got[j - 1])
            };
        }
    }
    if reach[wanted.len()][got.len()] {
        return Ok(());
    }
    // How far it went: the last wanted line that was met by any start of what was printed.
    let met = (0..wanted.len()).rev().find(|i| reach[*i].contains(&true)).unwrap_or(0);
    let taken = reach[met].iter().rposition(|reached| *reached).unwrap_or(0);
    Err(difference(expected.line, &wanted, &got, met, taken))
}

fn difference(first: usize, wanted: &[&str], got: &[&str], met: usize, taken: usize) -> String {
    let mut text = String::new();
    // A string takes all that is written to it.
    for (i, line) in wanted.iter().enumerate() {
        let mark = if i < met { ' ' } else { '-' };
        let _ = writeln!(text, "{mark} {:>4} | {line}", first + i);
    }
    for (j, line) in got.iter().enumerate() {
        let mark = if j < taken { ' ' } else { '+' };
        let _ = writeln!(text, "{mark} printed | {line}");
    }
    text
}

/// One line, with `…` for any text.
fn line_fits(want: &str, got: &str) -> bool {
    let mut parts = want.split(ANYTHING);
    // A split has a first part always.
    let Some(mut rest) = parts.next().and_then(|start| got.strip_prefix(start)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, inner)) = parts.split_last() else { return rest.is_empty() };
    for part in inner {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(text: &str, printed: &str) -> Result<(), String> {
        fits(&Expected { line: 10, text: text.to_owned() }, printed)
    }

    #[test]
    fn anything_within_a_line_and_any_lines() {
        for (text, printed) in [
            ("", ""),
            ("a\nb\n", "a\nb"),
            ("took … s\n", "took 3.1 s\n"),
            ("…b…\n", "abc\n"),
            ("…\n", ""),
            ("…\n", "one\ntwo\n"),
            ("first\n…\nlast\n", "first\nlast\n"),
            ("first\n…\nlast\n", "first\nlast\nmore\nlast\n"),
            ("…\nx … y\n…\n", "a\nx 1 y\nb\nc\n"),
            ("end  \n", "end\n"),
        ] {
            assert_eq!(fit(text, printed), Ok(()), "{text:?} {printed:?}");
        }
    }

    #[test]
    fn what_differs_is_shown_with_the_pages_lines() {
        for (text, printed) in
            [("a\n", "b\n"), ("a\n", "a\nb\n"), ("a\n…\n", "b\n"), ("a…a\n", "a\n"), ("", "x\n"), ("x\n", "")]
        {
            assert!(fit(text, printed).is_err(), "{text:?} {printed:?}");
        }
        let shown = fit("same\nwanted\n", "same\nother\n").expect_err("they differ");
        assert_eq!(shown, "    10 | same\n-   11 | wanted\n  printed | same\n+ printed | other\n");
    }
}
