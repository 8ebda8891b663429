//! What `layby dev` prints: lines for a person on standard output, or one JSON object a line for programs.

use std::io::Write as _;

use console::style;
use serde_json::{Value, json};

use crate::{
    base::{neutral_line, neutral_text},
    commands::exit::Failure,
};

/// Prints. Lines of several threads do not mix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Say {
    json: bool,
}

/// How a line is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    Good,
    Warn,
    Bad,
}

impl Say {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// One event: `word`, and what follows it, for a person; its name and members for a program. More lines
    /// of `rest` are put below it, indented.
    pub(crate) fn event(self, tone: Tone, word: &str, rest: &str, name: &str, mut members: Value) {
        if self.json {
            if let Some(members) = members.as_object_mut() {
                members.insert("event".into(), name.into());
            }
            return self.line(&members.to_string());
        }
        let word = match tone {
            Tone::Plain => style(word).bold(),
            Tone::Dim => style(word).dim(),
            Tone::Good => style(word).green().bold(),
            Tone::Warn => style(word).yellow().bold(),
            Tone::Bad => style(word).red().bold(),
        };
        let rest = neutral_text(rest);
        let mut lines = rest.trim_end().lines();
        let mut text = format!("{word} {}", lines.next().unwrap_or_default()).trim_end().to_owned();
        for line in lines {
            text.push_str("\n  ");
            text.push_str(line);
        }
        self.line(&text);
    }

    /// One line of a build's output.
    pub(crate) fn output(self, line: &str) {
        if self.json {
            return self.line(&json!({"event": "build_output", "line": line}).to_string());
        }
        self.line(&format!("  {} {}", style("|").dim(), neutral_line(line)));
    }

    /// Something that failed, with its stable code.
    pub(crate) fn failure(self, word: &str, name: &str, failure: &Failure) {
        let members = json!({"code": failure.code, "message": failure.message});
        self.event(Tone::Bad, word, &failure.to_string(), name, members);
    }

    fn line(self, text: &str) {
        let mut out = std::io::stdout().lock();
        // Who reads may have gone: then nobody is left to be told.
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }
}
