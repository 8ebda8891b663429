//! Counting, and telling.

use anyhow::Result;
use console::{Style, style};
use serde_json::{Value, json};

use super::{
    Revision,
    checks::{Check, Outcome, Status},
};

/// What the suite says of all revisions.
#[derive(Default)]
pub(super) struct Report {
    parts: Vec<Part>,
}

/// What it says of one.
struct Part {
    revision: &'static Revision,
    outcomes: Vec<Outcome>,
    /// What is too little, in words.
    short: Vec<String>,
    /// Whether every check is to be shown.
    whole: bool,
}

impl Report {
    /// Every scenario of a revision.
    pub(super) fn add(&mut self, revision: &'static Revision, outcomes: Vec<Outcome>) {
        let mut part = Part::new(revision, outcomes, false);
        // What a scored scenario only notes is a check too: one tells that JSON came where a stream is optional.
        let noted = part.count(Status::Info, |outcome| outcome.scenario.scored);
        let total = part.count(Status::Success, |_| true) + noted;
        let tasks = part.count(Status::Success, |outcome| outcome.scenario.is_of_tasks());
        for (what, count, least) in [
            ("checks", total, revision.least),
            ("checks of the tasks extension", tasks, revision.least_tasks),
        ] {
            if count < least {
                part.short.push(format!("{count} {what}, and not {least}"));
            }
        }
        self.parts.push(part);
    }

    /// One scenario.
    pub(super) fn add_one(&mut self, revision: &'static Revision, outcome: Outcome) {
        self.parts.push(Part::new(revision, vec![outcome], true));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// In how many ways the suite is not passed.
    pub(super) fn shortfalls(&self) -> usize {
        self.parts.iter().map(|part| part.short.len()).sum()
    }

    #[allow(clippy::print_stdout)]
    pub(super) fn print(&self, as_json: bool) -> Result<()> {
        if as_json {
            let parts: Vec<_> = self.parts.iter().map(Part::json).collect();
            let all = json!({ "passed": self.shortfalls() == 0, "revisions": parts });
            println!("{}", serde_json::to_string_pretty(&all)?);
        } else {
            self.parts.iter().for_each(|part| print!("{}", part.text()));
        }
        Ok(())
    }
}

impl Part {
    fn new(revision: &'static Revision, outcomes: Vec<Outcome>, whole: bool) -> Self {
        let short = outcomes.iter().filter_map(|outcome| revision.judge(outcome)).collect();
        Self { revision, outcomes, short, whole }
    }

    fn count(&self, status: Status, of: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.iter().filter(|outcome| of(outcome)).map(|outcome| outcome.count(status)).sum()
    }

    fn text(&self) -> String {
        let mut text = format!("\n{}\n", style(self.revision.name).bold());
        let width = self.outcomes.iter().map(|o| o.scenario.name.len()).max().unwrap_or(0);
        text.push_str(&format!("{:<width$}  passed  failed  warned  skipped  info\n", "scenario"));
        for outcome in &self.outcomes {
            text.push_str(&self.row(outcome, width));
            for check in &outcome.checks {
                if self.whole || check.status != Status::Success {
                    text.push_str(&line(check, self.whole));
                }
            }
        }
        let ran = |scored| {
            let of = self
                .outcomes
                .iter()
                .filter(|o| o.scenario.scored == scored && self.revision.judge(o).is_none());
            of.count()
        };
        text.push_str(&format!(
            "{}: {} checks succeeded ({} of the tasks extension), {} told something, {} failed, {} warned; \
             passed {} of {} required scenarios and {} of {} others\n",
            style(self.revision.name).bold(),
            self.count(Status::Success, |_| true),
            self.count(Status::Success, |outcome| outcome.scenario.is_of_tasks()),
            self.count(Status::Info, |_| true),
            self.count(Status::Failure, |_| true),
            self.count(Status::Warning, |_| true),
            ran(true),
            self.outcomes.iter().filter(|o| o.scenario.scored).count(),
            ran(false),
            self.outcomes.iter().filter(|o| !o.scenario.scored).count(),
        ));
        if !self.short.is_empty() {
            text.push_str(&format!("{} {}\n", style("short:").red().bold(), self.short.join("; ")));
        }
        text
    }

    fn row(&self, outcome: &Outcome, width: usize) -> String {
        let number = |status, column: usize, bad: Style| {
            let count = outcome.count(status);
            let cell = if count == 0 { format!("{:>column$}", "") } else { format!("{count:>column$}") };
            bad.apply_to(cell).to_string()
        };
        let mark = match (self.revision.judge(outcome), self.revision.excuse(outcome)) {
            (Some(_), _) => style("FAIL").red().bold().to_string(),
            (None, Some(why)) => style(format!("may fail: {why}")).dim().to_string(),
            (None, None) => style("ok").green().to_string(),
        };
        let name = &outcome.scenario.name;
        format!(
            "{name:<width$}  {}  {}  {}  {}  {}  {mark}\n",
            number(Status::Success, 6, Style::new()),
            number(Status::Failure, 6, Style::new().red()),
            number(Status::Warning, 6, Style::new().yellow()),
            number(Status::Skipped, 7, Style::new()),
            number(Status::Info, 4, Style::new()),
        )
    }

    fn json(&self) -> Value {
        let scenarios: Vec<_> = self
            .outcomes
            .iter()
            .map(|outcome| {
                let checks: Vec<_> = outcome
                    .checks
                    .iter()
                    .map(|check| json!({ "id": check.id, "status": check.status.word(), "error": check.error }))
                    .collect();
                json!({
                    "scenario": outcome.scenario.name,
                    "required": outcome.scenario.scored,
                    "passed": self.revision.judge(outcome).is_none(),
                    "checks": checks,
                })
            })
            .collect();
        let counts: Value =
            Status::ALL.iter().map(|s| (s.word().to_lowercase(), json!(self.count(*s, |_| true)))).collect();
        json!({ "revision": self.revision.name, "counts": counts, "scenarios": scenarios, "short": self.short })
    }
}

impl Revision {
    /// What is wrong with an outcome; nothing where it is as it should be, or excused.
    fn judge(&self, outcome: &Outcome) -> Option<String> {
        let name = &outcome.scenario.name;
        if outcome.checks.is_empty() {
            return Some(format!("{name} (did not run)"));
        }
        let bad = |check: &&Check| {
            check.status == Status::Failure || (self.strict && check.status == Status::Warning)
        };
        let bad = outcome.checks.iter().filter(bad).count();
        (bad > 0 && self.excuse(outcome).is_none()).then(|| format!("{name} ({bad})"))
    }

    /// Why a scenario may fail.
    fn excuse(&self, outcome: &Outcome) -> Option<&'static str> {
        self.excused.iter().find(|(name, _)| *name == outcome.scenario.name).map(|(_, why)| *why)
    }
}

/// One check, below its scenario.
fn line(check: &Check, whole: bool) -> String {
    let word = match check.status {
        Status::Success => style(check.status.word()).green(),
        Status::Failure => style(check.status.word()).red(),
        Status::Warning => style(check.status.word()).yellow(),
        Status::Skipped | Status::Info => style(check.status.word()).dim(),
    };
    let why = check.error.as_deref().unwrap_or(&check.description);
    let mut text = format!("    {word} {}: {}\n", check.id, why.replace('\n', "\n      "));
    if whole && !check.details.is_null() {
        text.push_str(&format!("      {}\n", check.details));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{super::REVISIONS, super::checks::Scenario, *};

    fn outcome(name: &str, statuses: &[Status]) -> Outcome {
        let check = |status: &Status| Check {
            id: "c".into(),
            description: String::new(),
            status: *status,
            error: None,
            details: Value::Null,
        };
        Outcome {
            scenario: Scenario { name: name.into(), scored: true },
            checks: statuses.iter().map(check).collect(),
        }
    }

    #[test]
    fn a_failure_a_warning_and_a_missing_scenario_are_shortfalls() {
        let [newest, older] = &REVISIONS;
        let judge = |r: &Revision, statuses: &[Status]| r.judge(&outcome("ping", statuses)).is_some();
        for revision in [newest, older] {
            assert!(!judge(revision, &[Status::Success, Status::Info, Status::Skipped]));
            assert!(judge(revision, &[Status::Success, Status::Failure]));
            assert!(judge(revision, &[]));
        }
        assert!(judge(newest, &[Status::Warning]));
        assert!(!judge(older, &[Status::Warning]));
        assert!(older.judge(&outcome("server-sse-polling", &[Status::Failure])).is_none());
        assert!(older.judge(&outcome("server-sse-polling", &[])).is_some());
    }

    #[test]
    fn too_few_checks_are_a_shortfall() {
        let [newest, _] = &REVISIONS;
        let with = |tasks: usize, others: usize| {
            let mut report = Report::default();
            let tasks = outcome("tasks-a", &vec![Status::Success; tasks]);
            report.add(newest, vec![tasks, outcome("a", &vec![Status::Success; others])]);
            report.shortfalls()
        };
        assert_eq!(with(44, 153), 0);
        assert_eq!(with(44, 152), 1);
        assert_eq!(with(43, 154), 1);
        assert_eq!(with(43, 100), 2);
    }
}
