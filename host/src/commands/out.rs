//! Output: results on stdout, everything else on stderr, colour only where a person reads it.

use std::io::{self, IsTerminal, Write};

use console::Style;
use serde_json::Value;

use super::exit::Failure;
use crate::base::neutral_line;

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// Where the stream is a terminal, and `NO_COLOR` is not set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// The choice for one stream.
    pub(crate) fn on(self, terminal: bool) -> bool {
        match self {
            Self::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            Self::Always => true,
            Self::Never => false,
        }
    }

    /// Makes `console`, and with it prompts and bars, follow the choice.
    pub(crate) fn install(self) {
        console::set_colors_enabled(self.on(io::stdout().is_terminal()));
        console::set_colors_enabled_stderr(self.on(io::stderr().is_terminal()));
    }
}

/// Where a command prints its result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Out {
    /// One JSON object instead of text.
    pub(crate) json: bool,
}

impl Out {
    /// Prints a value as JSON on one line in a pipe, indented on a terminal.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn json(self, value: &Value) -> Result<(), Failure> {
        let text = if io::stdout().is_terminal() { format!("{value:#}") } else { value.to_string() };
        self.text(&text)
    }

    /// Prints text that is already neutral, with a line break at its end.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let written = out
            .write_all(text.as_bytes())
            .and_then(|()| out.write_all(end.as_bytes()))
            .and_then(|()| out.flush());
        match written {
            // The reader has seen enough (`layby tasks list | head`).
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(Failure::from),
        }
    }
}

/// A remark for the person, on stderr. Its text must be neutral.
pub(crate) fn note(text: &str) {
    // Nothing is left to tell where stderr is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Rows under headings, in columns as wide as their widest cell. Cells are made neutral here; on a
/// terminal the last column is cut to the width of the screen.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1));
    layout(headings, rows, width)
}

fn layout(headings: &[&str], rows: &[Vec<String>], screen: Option<usize>) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| neutral_line(cell)).collect()).collect();
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(i, heading)| {
            let cells =
                rows.iter().filter_map(|row| row.get(i)).map(|cell| console::measure_text_width(cell));
            cells.max().unwrap_or(0).max(heading.len())
        })
        .collect();
    let bold = Style::new().bold();
    let titles: Vec<String> = headings.iter().map(|h| bold.apply_to(h).to_string()).collect();
    let mut text = line(&titles, &widths, screen);
    for row in &rows {
        text.push_str(&line(row, &widths, screen));
    }
    text
}

fn line(cells: &[String], widths: &[usize], screen: Option<usize>) -> String {
    let mut text = String::new();
    let mut used = 0;
    for (i, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if i + 1 == cells.len() {
            let room = screen.map_or(usize::MAX, |s| s.saturating_sub(used).max(8));
            text.push_str(&console::truncate_str(cell, room, "…"));
        } else {
            text.push_str(&console::pad_str(cell, width, console::Alignment::Left, None));
            text.push_str("  ");
            used += width + 2;
        }
    }
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_cells_are_neutral() {
        let rows =
            vec![vec!["a".to_owned(), "x\x1b[1my".to_owned()], vec!["long".to_owned(), "z".to_owned()]];
        assert_eq!(layout(&["ID", "NAME"], &rows, None), "ID    NAME\na     x\\u{1b}[1my\nlong  z\n");
        let cut = layout(&["ID", "NAME"], &[vec!["a".to_owned(), "0123456789abcdef".to_owned()]], Some(14));
        assert_eq!(cut, "ID  NAME\na   012345678…\n");
    }

    #[test]
    fn colour_follows_the_choice() {
        assert!(Color::Always.on(false));
        assert!(!Color::Never.on(true));
        assert!(!Color::Auto.on(false));
    }
}
