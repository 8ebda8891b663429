//! Bridge tools (`bridge-tools`): tasks for clients that cannot do the extension.

use crate::base::Millis;

/// What bridge tools need to know. Fixed: models learn the names from the list.
pub struct BridgeRules;

impl BridgeRules {
    /// Tells how a task stands, or gives its result.
    pub const GET: &str = "layby_task_get";
    /// Answers a task's questions.
    pub const ANSWER: &str = "layby_task_answer";
    /// Asks for a task's end.
    pub const CANCEL: &str = "layby_task_cancel";
    /// Names that no plugin may have while bridging is on.
    pub const NAMES: [&str; 3] = [Self::GET, Self::ANSWER, Self::CANCEL];
    /// How long one look may wait for news; never longer than the tool's `hold`. 20 s, because every look costs a
    /// turn of the model, and an open response nearly nothing.
    pub const WAIT: Millis = Millis::from_secs(20);
}
