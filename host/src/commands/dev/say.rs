//! What `layby dev` prints: lines for a person on standard output, or one JSON object a line for programs.

use std::time::Duration;

use console::style;
use serde_json::{Value, json};

use super::queue::Queue;
use crate::{
    base::{neutral_line, neutral_text},
    commands::exit::Failure,
};

/// The one way to the process's standard output.
static OUT: Queue = Queue::new();

/// Prints. Lines of several threads do not mix, and none of them waits for who reads.
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
    /// Begins to print on standard output.
    ///
    /// # Errors
    /// The system gives no other descriptor or thread.
    pub(crate) fn new(json: bool) -> std::io::Result<Self> {
        use std::os::fd::AsFd as _;
        // A descriptor of its own: `stdout()` has a lock, which a writer that waits for its reader would hold.
        let file = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        std::thread::Builder::new().name("say".into()).spawn(move || OUT.write_to(file))?;
        Ok(Self { json })
    }

    /// One event: `word`, and what follows it, for a person; its name and members for a program. More lines
    /// of `rest` are put below it, indented.
    pub(crate) fn event(self, tone: Tone, word: &str, rest: &str, name: &str, members: Value) {
        self.line(self.formed(tone, word, rest, name, members));
    }

    fn formed(self, tone: Tone, word: &str, rest: &str, name: &str, mut members: Value) -> String {
        if self.json {
            if let Some(members) = members.as_object_mut() {
                members.insert("event".into(), name.into());
            }
            return members.to_string();
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
        text
    }

    /// A remark on what is watched.
    pub(crate) fn watch(self, text: &str) {
        self.event(Tone::Warn, "watch", text, "watch", json!({"message": text}));
    }

    /// One line of a build's output.
    pub(crate) fn output(self, line: &str) {
        self.line(if self.json {
            json!({"event": "build_output", "line": line}).to_string()
        } else {
            format!("  {} {}", style("|").dim(), neutral_line(line))
        });
    }

    /// Something that failed, with its stable code.
    pub(crate) fn failure(self, word: &str, name: &str, failure: &Failure) {
        let members = json!({"code": failure.code, "message": failure.message});
        self.event(Tone::Bad, word, &failure.to_string(), name, members);
    }

    /// Returns once there is room for what can wait, such as a build's output. Cancel-safe.
    pub(crate) async fn room(self) {
        OUT.room().await;
    }

    /// Returns once nobody can read any more. Cancel-safe.
    pub(crate) async fn gone(self) {
        OUT.gone().await;
    }

    /// Waits until all is written, for `most` at most. Blocking.
    pub(crate) fn finish(self, most: Duration) {
        OUT.finish(most);
    }

    fn line(self, text: String) {
        OUT.push(text, |lost| {
            let text = format!("{lost} lines are missing here, because nobody read them");
            self.formed(Tone::Warn, "output", &text, "output_lost", json!({"lines": lost}))
        });
    }
}
