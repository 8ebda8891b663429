//! What the scenarios of the tasks extension call.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use layby_plugin::{form, prelude::*};

use crate::mrtr::Name;

/// How often a sleeping tool looks whether it is cancelled.
const STEP: Duration = Duration::from_millis(50);
/// How long the jobs run that must outlast the deadline of half a second.
const JOB: Duration = Duration::from_secs(1);

fn sleep_checking(whole: Duration, call: &Call) -> Result<()> {
    let start = Instant::now();
    while let Some(left) = whole.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        call.check()?;
        sleep(left.min(STEP));
    }
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Greet {
    name: String,
}

/// Greets, at once.
#[tool]
pub(crate) fn greet(args: Greet) -> Result<String> {
    Ok(format!("Hello, {}!", args.name))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Slow {
    /// How long to take.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3600))]
    seconds: f64,
    /// Comes back in the answer.
    #[serde(default)]
    label: String,
}

/// Takes as many seconds as it is told.
#[tool]
pub(crate) fn slow_compute(args: Slow, call: &Call) -> Result<String> {
    sleep_checking(Duration::try_from_secs_f64(args.seconds)?, call)?;
    Ok(format!("Computed {} for {} s", args.label, args.seconds))
}

/// Fails after a second, as a tool does.
#[tool]
pub(crate) fn failing_job(call: &Call) -> Result<()> {
    sleep_checking(JOB, call)?;
    Err(Error::failed("This job intentionally fails for testing"))
}

/// Breaks down after a second.
#[tool]
pub(crate) fn protocol_error_job(call: &Call) -> Result<()> {
    sleep_checking(JOB, call)?;
    panic!("this job intentionally breaks down for testing");
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Delete {
    filename: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Delete it?
    confirm: bool,
}

/// Asks before it pretends to delete a file.
#[tool]
pub(crate) fn confirm_delete(args: Delete, call: &Call) -> Result<String> {
    let answer = call.ask_form::<Confirm>("confirm", format!("Delete {}?", args.filename))?;
    Ok(match answer {
        Answer::Accepted(Confirm { confirm: true }) => format!("Deleted {}", args.filename),
        _ => format!("Kept {}", args.filename),
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "shown with its Debug")]
struct Two {
    name: Option<String>,
    confirm: Option<bool>,
}

/// Asks two things at once.
#[tool]
pub(crate) fn multi_input(call: &Call) -> Result<String> {
    let first = form::<Two>("first", "The first question: a name, and yes or no.");
    let second = form::<Two>("second", "The second question: a name, and yes or no.");
    let (first, second) = call.ask_all((first, second))?;
    Ok(format!("The answers: {first:?} and {second:?}"))
}

// Its policy has `early-input = "mrtr"`.
/// Asks for a name before it becomes a task, and then works on.
#[tool]
pub(crate) fn test_tool_with_task(call: &Call) -> Result<String> {
    let answer = call.ask_form::<Name>("user_name", "What is your name?")?;
    let name = answer.accepted().map_or_else(|| "stranger".to_owned(), |answer| answer.name);
    sleep_checking(JOB, call)?;
    Ok(format!("Hello, {name}! The work is done."))
}
