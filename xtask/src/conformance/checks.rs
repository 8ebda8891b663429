//! What the suite writes down: its list of scenarios, and a file of checks for each that ran.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Characters of the time stamp at the end of a result folder's name, with the dash before it.
const STAMP: usize = "-2026-11-30T02-49-00-624Z".len();

/// A scenario for servers.
pub(super) struct Scenario {
    pub(super) name: String,
    /// Whether the revision requires it.
    pub(super) scored: bool,
}

impl Scenario {
    pub(super) fn is_of_tasks(&self) -> bool {
        self.name.starts_with("tasks-")
    }
}

/// How a check went, in the suite's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
    Info,
}

impl Status {
    pub(super) const ALL: [Self; 5] =
        [Self::Success, Self::Failure, Self::Warning, Self::Skipped, Self::Info];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Failure => "FAILURE",
            Self::Warning => "WARNING",
            Self::Skipped => "SKIPPED",
            Self::Info => "INFO",
        }
    }
}

/// One check.
pub(super) struct Check {
    pub(super) id: String,
    pub(super) description: String,
    pub(super) status: Status,
    pub(super) error: Option<String>,
    pub(super) details: Value,
}

/// A scenario, and what came of it.
pub(super) struct Outcome {
    pub(super) scenario: Scenario,
    /// Nothing where the suite wrote nothing.
    pub(super) checks: Vec<Check>,
}

impl Outcome {
    pub(super) fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }
}

/// The scenarios for servers in what `list --server --requirements` prints.
pub(super) fn listed(text: &str) -> Vec<Scenario> {
    let mut scored = false;
    let mut found = Vec::new();
    for line in text.lines() {
        match line.trim().strip_prefix("- ") {
            None if line.starts_with("Server scenarios") => scored = true,
            // A heading of reasons stands among the others, and an empty line ends nothing.
            None if line.starts_with("Client scenarios") || line.starts_with("Run and reported") => {
                scored = false
            }
            None => {}
            Some(name) => match name.strip_suffix(" [server]") {
                Some(name) => found.push(Scenario { name: name.to_owned(), scored: false }),
                None if scored => found.push(Scenario { name: name.to_owned(), scored: true }),
                None => {}
            },
        }
    }
    found
}

/// The checks of a scenario, from the folder of a run.
pub(super) fn read(out: &Path, scenario: Scenario) -> Result<Outcome> {
    let mut checks = Vec::new();
    let mut folders = 0;
    // There is no folder where no scenario ran: then each is missing.
    for entry in fs::read_dir(out).into_iter().flatten() {
        let entry = entry?;
        let folder = entry.file_name().to_string_lossy().into_owned();
        if of(&folder) != Some(&scenario.name) {
            continue;
        }
        folders += 1;
        let file = entry.path().join("checks.json");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        checks = parse(&text).with_context(|| format!("in {}", file.display()))?;
    }
    if folders > 1 {
        bail!("{} ran {folders} times: {}", scenario.name, out.display());
    }
    Ok(Outcome { scenario, checks })
}

/// The scenario that a result folder is of.
fn of(folder: &str) -> Option<&str> {
    let name = folder.strip_prefix("server-")?;
    name.get(..name.len().checked_sub(STAMP)?)
}

fn parse(text: &str) -> Result<Vec<Check>> {
    let all: Vec<Value> = serde_json::from_str(text)?;
    all.iter().map(check).collect()
}

fn check(value: &Value) -> Result<Check> {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let word = text("status").unwrap_or_default();
    let status = Status::ALL.into_iter().find(|status| status.word() == word);
    Ok(Check {
        id: text("id").context("a check without an id")?,
        description: text("description").unwrap_or_default(),
        status: status.with_context(|| format!("a check with the unknown status {word:?}"))?,
        error: text("errorMessage"),
        details: value["details"].clone(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn only_servers_scenarios_are_listed() {
        let text = "Required for R:\n\nServer scenarios (x):\n  - ping\n  - caching\n\nClient scenarios (x):\n  - auth\n\n\
                    Run and reported, but never scored:\n  extension (2):\n    - dpop [client]\n    - tasks-a [server]\n";
        let found: Vec<_> = listed(text).into_iter().map(|s| (s.name, s.scored)).collect();
        assert_eq!(found, [("ping".into(), true), ("caching".into(), true), ("tasks-a".into(), false)]);
    }

    #[test]
    fn a_folder_belongs_to_one_scenario() {
        assert_eq!(of("server-ping-2026-11-30T02-49-00-624Z"), Some("ping"));
        assert_eq!(of("server-server-initialize-2026-11-30T02-49-00-624Z"), Some("server-initialize"));
        assert_eq!(of("client-ping-2026-11-30T02-49-00-624Z"), None);
        assert_eq!(of("server-x"), None);
    }

    #[test]
    fn an_unknown_status_is_an_error() {
        assert_eq!(parse(r#"[{"id":"a","status":"SUCCESS"}]"#).unwrap()[0].status, Status::Success);
        assert!(parse(r#"[{"id":"a","status":"MAYBE"}]"#).is_err());
        assert!(parse(r#"[{"status":"SUCCESS"}]"#).is_err());
    }
}
