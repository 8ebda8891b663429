//! How far a call has come: a bar on a terminal, plain lines in a pipe.

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use super::super::out::note;
use crate::base::neutral_line;

/// The bar counts in steps of this share of the whole, because MCP's progress is a fraction.
const STEPS: u64 = 1000;

/// What is shown while a call runs. Cheap to call from any task; holds its lock only while drawing.
pub(crate) struct Display {
    state: Mutex<State>,
}

struct State {
    terminal: bool,
    bar: Option<ProgressBar>,
    /// The newest line, so that a repeat prints nothing.
    last: String,
    /// The furthest progress: notifications may arrive out of order.
    furthest: f64,
}

impl Display {
    /// A display on stderr.
    pub(crate) fn new() -> Self {
        Self::with(io::stderr().is_terminal())
    }

    fn with(terminal: bool) -> Self {
        let state = State { terminal, bar: None, last: String::new(), furthest: f64::NEG_INFINITY };
        Self { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while drawing leaves nothing that matters.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `notifications/progress`.
    pub(crate) fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let mut state = self.lock();
        if !progress.is_finite() || progress <= state.furthest {
            return;
        }
        state.furthest = progress;
        let share = total.filter(|t| t.is_finite() && *t > 0.0).map(|t| (progress / t).clamp(0.0, 1.0));
        let text = message.map(neutral_line).unwrap_or_default();
        match share {
            Some(share) => state.share(share, &text),
            None if text.is_empty() => state.say(&format!("{progress}")),
            None => state.say(&text),
        }
    }

    /// A task's `statusMessage`, or what this client does.
    pub(crate) fn status(&self, message: &str) {
        self.lock().say(&neutral_line(message));
    }

    /// Takes the bar off the screen, for a question or the result.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.lock().bar.take() {
            bar.finish_and_clear();
        }
    }

    /// A line that stays, above the bar.
    pub(crate) fn remark(&self, text: &str) {
        let state = self.lock();
        match &state.bar {
            Some(bar) => bar.suspend(|| note(text)),
            None => note(text),
        }
    }
}

impl State {
    fn say(&mut self, text: &str) {
        if self.last == text {
            return;
        }
        text.clone_into(&mut self.last);
        if self.terminal {
            self.bar().set_message(text.to_owned());
        } else {
            note(text);
        }
    }

    fn share(&mut self, share: f64, text: &str) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "share is 0 to 1")]
        let at = (share * STEPS as f64) as u64;
        if !self.terminal {
            return self.say(format!("{:3.0} % {text}", share * 100.0).trim_end());
        }
        let bar = self.bar().clone();
        if bar.length().is_none() {
            bar.set_length(STEPS);
            bar.set_style(style("{spinner} [{bar:30}] {percent:>3} % {msg}"));
        }
        bar.set_position(at);
        text.clone_into(&mut self.last);
        bar.set_message(text.to_owned());
    }

    fn bar(&mut self) -> &ProgressBar {
        self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::no_length().with_style(style("{spinner} {elapsed} {msg}"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        })
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are ours; should one not parse, the bar is plain.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_only_moves_forward() {
        let display = Display::with(false);
        display.progress(2.0, Some(4.0), Some("half\x1b[2J"));
        assert_eq!(display.lock().last, " 50 % half\\u{1b}[2J");
        display.progress(1.0, Some(4.0), Some("back"));
        display.progress(f64::NAN, None, Some("nothing"));
        assert_eq!(display.lock().last, " 50 % half\\u{1b}[2J");
        display.progress(3.0, None, None);
        assert_eq!(display.lock().last, "3");
        display.status("saving");
        assert_eq!(display.lock().last, "saving");
    }

    #[test]
    fn a_bar_comes_and_goes() {
        let display = Display::with(true);
        display.progress(1.0, Some(2.0), None);
        display.remark("kept");
        assert!(display.lock().bar.is_some());
        display.clear();
        assert!(display.lock().bar.is_none());
    }
}
