//! What the operator is told of what a run was denied: what it tried, and the line that would allow it. Each is told once in a
//! run, and only so many. (A denied request by HTTP is told each time: their number is bounded.)

use super::{Audience, State, wit_call::LogLevel};
use crate::base::neutral_line;

/// Different lines of a run: more say nothing new of what its plugin is after.
const LINES: usize = 20;

/// What was told.
#[derive(Default)]
pub(super) struct Denied(Vec<String>);

impl State {
    /// Tells of one; what is replayed was told before.
    pub(super) fn deny(&mut self, text: &str) {
        self.tell_once(LogLevel::Warning, &format!("denied: {text}"));
    }

    /// Tells something once.
    pub(super) fn tell_once(&mut self, level: LogLevel, text: &str) {
        let text = neutral_line(text);
        let told = &mut self.denied.0;
        if !self.journal.speaks() || told.len() >= LINES || told.contains(&text) {
            return;
        }
        self.caller.log(Audience::Operator, level, &text);
        told.push(text);
    }
}
