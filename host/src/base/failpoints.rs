//! Places where a test can kill or hold this process: before and after each write and each effect.
//! Only the feature `test-hooks` makes anything of them; `LAYBY_FAILPOINTS` says what, for example
//! `task.park.before=kill,store.after-commit=kill:3,task.claim.after=pause:FILE`:
//! the first (or third) passage ends the process as `kill -9` does; `pause` makes FILE`.reached` and
//! waits until FILE is there. `LAYBY_FAILPOINTS=list` prints [`ALL`], one on a line, and ends.

/// Every point. A name that is not here does not compile, and one that nothing passes fails a test.
pub const ALL: &[&str] = &[
    // The writer of a database, around a commit that changes a task.
    "store.before-begin",
    "store.before-commit",
    "store.after-commit",
    // Moves of a task: before the store has it, and once it is committed.
    "task.promote.before",
    "task.promote.after",
    "task.admit.before",
    "task.admit.after",
    "task.ask.before",
    "task.ask.after",
    "task.answers.before",
    "task.answers.after",
    "task.time-out.before",
    "task.time-out.after",
    "task.progress.before",
    "task.progress.after",
    "task.cancel.before",
    "task.cancel.after",
    "task.reveal.before",
    "task.reveal.after",
    "task.settle.before",
    "task.settle.after",
    "task.abandon.before",
    "task.abandon.after",
    "task.park.before",
    "task.park.after",
    "task.claim.before",
    "task.claim.after",
    "task.live.before",
    "task.live.after",
    "task.hand-back.before",
    "task.hand-back.after",
    "task.orphan.before",
    "task.orphan.after",
    "task.pin.before",
    "task.pin.after",
    "task.commit.before",
    "task.commit.after",
    // A request by HTTP: before it is recorded, before it is sent, before its end is recorded, before that is committed, and
    // before the guest has it.
    "effect.before-start",
    "effect.after-start-commit",
    "effect.after-send",
    "effect.after-answer",
    "effect.after-end-commit",
    // The same of a change of a file.
    "file.before-start",
    "file.after-start-commit",
    "file.after-change",
    "file.after-answer",
    "file.after-end-commit",
];

/// Passes the point of this name.
macro_rules! failpoint {
    ($name:literal) => {
        $crate::base::failpoints::pass(const { $crate::base::failpoints::known($name) }).await
    };
}
pub(crate) use failpoint;

/// `name`, where it is one of [`ALL`]; else it does not compile.
pub(crate) const fn known(name: &'static str) -> &'static str {
    let mut i = 0;
    while i < ALL.len() {
        if equal(ALL[i].as_bytes(), name.as_bytes()) {
            return name;
        }
        i += 1;
    }
    panic!("a failpoint that base/failpoints.rs does not list")
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(not(feature = "test-hooks"))]
pub(crate) async fn pass(_name: &'static str) {}

#[cfg(feature = "test-hooks")]
pub(crate) use hooks::pass;
#[cfg(feature = "test-hooks")]
pub use hooks::{VARIABLE, printed};

#[cfg(feature = "test-hooks")]
mod hooks {
    use std::{
        io::Write as _,
        path::PathBuf,
        sync::{
            OnceLock,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

    /// What the points do.
    pub const VARIABLE: &str = "LAYBY_FAILPOINTS";

    #[derive(Debug)]
    pub(super) enum Action {
        /// Passages left, this one included.
        Kill(AtomicU32),
        Pause(PathBuf),
    }

    static ACTIONS: OnceLock<Vec<(String, Action)>> = OnceLock::new();

    pub(super) fn parse(text: &str) -> Result<Vec<(String, Action)>, String> {
        let one = |part: &str| {
            let (name, action) = part.split_once('=').ok_or(format!("{part}: write NAME=ACTION"))?;
            if !super::ALL.contains(&name) {
                return Err(format!("{name}: no such failpoint; {VARIABLE}=list prints all"));
            }
            let (verb, value) = action.split_once(':').unwrap_or((action, ""));
            let action = match verb {
                "kill" if value.is_empty() => Action::Kill(AtomicU32::new(1)),
                "kill" => Action::Kill(AtomicU32::new(value.parse().map_err(|e| format!("{part}: {e}"))?)),
                "pause" if !value.is_empty() => Action::Pause(value.into()),
                _ => return Err(format!("{part}: an action is kill, kill:N or pause:FILE")),
            };
            Ok((name.to_owned(), action))
        };
        text.split(',').filter(|part| !part.is_empty()).map(one).collect()
    }

    /// Passes a point. The future must not be dropped while it pauses where the edge must not be torn.
    pub(crate) async fn pass(name: &'static str) {
        let actions = ACTIONS.get_or_init(|| {
            let text = std::env::var(VARIABLE).unwrap_or_default();
            parse(&text).unwrap_or_else(|why| {
                let _ = writeln!(std::io::stderr(), "{VARIABLE}: {why}");
                std::process::exit(2)
            })
        });
        for (_, action) in actions.iter().filter(|(at, _)| at == name) {
            match action {
                Action::Kill(left) => {
                    if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        let _ = rustix::process::kill_process(
                            rustix::process::getpid(),
                            rustix::process::Signal::KILL,
                        );
                        std::future::pending::<()>().await;
                    }
                }
                Action::Pause(file) => {
                    let mut reached = file.clone().into_os_string();
                    reached.push(".reached");
                    let _ = std::fs::write(reached, name);
                    while !file.exists() {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            }
        }
    }

    /// Prints all points where the variable is `list`; true where it did.
    pub fn printed() -> bool {
        let asked = std::env::var(VARIABLE).is_ok_and(|v| v == "list");
        if asked {
            let _ = writeln!(std::io::stdout(), "{}", super::ALL.join("\n"));
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn every_point_is_in_the_code() {
        let mut source = String::new();
        let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("base/failpoints.rs") {
                    source.push_str(&std::fs::read_to_string(path).unwrap_or_default());
                }
            }
        }
        let passes = |name: &str| {
            // Moves of a task are named by their event, without the side.
            let event = name.strip_suffix(".before").or(name.strip_suffix(".after")).unwrap_or(name);
            source.contains(&format!("failpoint!(\"{name}\")"))
                || source.contains(&format!("edge!(\"{event}\")"))
        };
        let unused: Vec<_> = ALL.iter().filter(|name| !passes(name)).collect();
        assert!(unused.is_empty(), "nothing passes {unused:?}");
    }

    #[cfg(feature = "test-hooks")]
    #[test]
    fn what_cannot_be_read_is_refused() {
        use super::hooks::parse;
        assert_eq!(parse("").unwrap().len(), 0);
        assert_eq!(parse("task.park.before=kill,store.after-commit=kill:3").unwrap().len(), 2);
        assert_eq!(parse("task.park.before=pause:/a:b").unwrap().len(), 1);
        for wrong in ["task.park.before", "nobody=kill", "task.park.before=kill:x", "task.park.before=wait"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
