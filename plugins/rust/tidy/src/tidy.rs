//! Asking, and deleting.

use std::{fs, path::Path};

use layby_plugin::prelude::*;

use crate::find::{self, Group, Scan};

/// Groups that the form lists. What it does not list it does not ask about, and it is not deleted.
const GROUPS_ASKED: usize = 100;
/// Bytes of paths that the form lists; the host takes questions of up to 64 KiB.
const BYTES_ASKED: usize = 32 * 1024;
/// Paths in the result's lists.
const PATHS_SHOWN: usize = 200;

/// What the caller fills in.
#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Delete every listed copy but one of each?
    delete: bool,
    /// Which copy stays.
    #[serde(default)]
    keep: Keep,
}

/// Which file of a group stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Keep {
    /// The first by its path
    #[default]
    First,
    /// The one changed last
    Newest,
}

/// What became of a request to tidy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Decision {
    /// There was nothing to ask about.
    NoDuplicates,
    /// The caller approved.
    Approved,
    /// The caller said no, or left `delete` off.
    Declined,
    /// The caller closed the question.
    Dismissed,
}

/// The result of `tidy_folder`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Outcome {
    pub(crate) decision: Decision,
    /// How many files were deleted.
    pub(crate) deleted: usize,
    /// Their size in all.
    pub(crate) freed_bytes: u64,
    /// Their paths; at most 200.
    pub(crate) deleted_paths: Vec<String>,
    /// Files that were to be deleted and were not, and why; at most 200.
    pub(crate) kept: Vec<String>,
    /// Surplus files that were too many for one form: call again for them.
    pub(crate) not_asked_about: usize,
}

impl Outcome {
    fn undone(decision: Decision, not_asked_about: usize) -> Self {
        let (deleted_paths, kept) = (Vec::new(), Vec::new());
        Self { decision, deleted: 0, freed_bytes: 0, deleted_paths, kept, not_asked_about }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = match self.decision {
            Decision::NoDuplicates => "There are no duplicates. Nothing was deleted.".to_owned(),
            Decision::Declined => "The caller declined. Nothing was deleted.".to_owned(),
            Decision::Dismissed => "The caller closed the question. Nothing was deleted.".to_owned(),
            Decision::Approved => {
                format!("Deleted {}, {} bytes.", find::files(self.deleted), self.freed_bytes)
            }
        };
        for kept in &self.kept {
            text.push_str(&format!("\nKept {kept}"));
        }
        if self.not_asked_about > 0 {
            text.push_str(&format!(
                "\n{} more files were not asked about: call again.",
                self.not_asked_about
            ));
        }
        text
    }
}

pub(crate) fn tidy(scan: Scan, call: &Call) -> Result<Outcome> {
    if scan.groups.is_empty() {
        return Ok(Outcome::undone(Decision::NoDuplicates, 0));
    }
    let (message, asked) = question(&scan);
    let total: usize = asked.iter().map(|group| group.paths.len() - 1).sum();
    let not_asked = scan.surplus_files() - total;
    let keep = match call.ask_form::<Approval>("delete_duplicates", message)? {
        Answer::Accepted(Approval { delete: true, keep }) => keep,
        Answer::Accepted(_) | Answer::Declined => return Ok(Outcome::undone(Decision::Declined, not_asked)),
        Answer::Dismissed => return Ok(Outcome::undone(Decision::Dismissed, not_asked)),
    };
    let mut outcome = Outcome::undone(Decision::Approved, not_asked);
    // On from where the comparing ended: progress only ever grows.
    let mut done = scan.compared;
    let end = done + asked.iter().map(Group::surplus_bytes).sum::<u64>();
    for group in &asked {
        let kept = kept(group, keep);
        for (_, path) in group.paths.iter().enumerate().filter(|(i, _)| *i != kept) {
            delete(&scan.root, path, &group.paths[kept], group, call, &mut outcome)?;
            done += group.size;
            call.progress(done as f64, end as f64, format!("deleted {} of {total}", outcome.deleted));
        }
    }
    Ok(outcome)
}

/// The form's message, and the groups that it lists, with every path: nobody approves a deletion
/// that they were not shown. What does not fit waits for the next call.
fn question(scan: &Scan) -> (String, Vec<Group>) {
    let mut listed = String::new();
    let mut asked: Vec<Group> = Vec::new();
    for group in scan.groups.iter().take(GROUPS_ASKED) {
        let mut group = group.clone();
        let mut line = line(&group);
        if listed.len() + line.len() > BYTES_ASKED {
            if !asked.is_empty() {
                break;
            }
            // One group that is too large by itself: as many of its copies as fit.
            while line.len() > BYTES_ASKED && group.paths.len() > 2 {
                let fewer = (group.paths.len() / 2).max(2);
                group.paths.truncate(fewer);
                line = self::line(&group);
            }
        }
        listed.push_str(&line);
        asked.push(group);
    }
    let files: usize = asked.iter().map(|group| group.paths.len() - 1).sum();
    let bytes: u64 = asked.iter().map(Group::surplus_bytes).sum();
    let message = format!(
        "Surplus: {}, {bytes} bytes. Delete these copies, and keep one of each?\n{listed}",
        find::files(files)
    );
    (message, asked)
}

fn line(group: &Group) -> String {
    let paths: Vec<_> = group.paths.iter().map(|path| find::shown(path)).collect();
    format!("- {} ({} bytes each)\n", paths.join(" = "), group.size)
}

fn kept(group: &Group, keep: Keep) -> usize {
    match keep {
        Keep::First => 0,
        Keep::Newest => {
            let newest = (0..group.paths.len()).max_by_key(|i| (group.modified[*i], std::cmp::Reverse(*i)));
            newest.unwrap_or_default()
        }
    }
}

/// Deletes `path`, if it and the file that stays still are what the caller was shown: the answer may
/// have taken days.
fn delete(
    root: &Path,
    path: &str,
    stays: &str,
    group: &Group,
    call: &Call,
    outcome: &mut Outcome,
) -> Result<()> {
    let full = root.join(path);
    let unchanged = |what: &str| -> Result<Option<String>> {
        let full = root.join(what);
        // A link to the file that stays would be equal to it, and is no copy.
        if !fs::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_file()) {
            return Ok(Some(format!("{what} is no longer there")));
        }
        match find::hash(&full, call) {
            Ok(now) if now == (group.size, group.hash) => Ok(None),
            Ok(_) => Ok(Some(format!("{what} has changed"))),
            Err(Error::Cancelled) => Err(Error::Cancelled),
            Err(_) => Ok(Some(format!("{what} cannot be read"))),
        }
    };
    let mut reason = unchanged(stays)?;
    if reason.is_none() {
        reason = unchanged(path)?;
    }
    // Right before the effect, so that nothing is deleted after a cancel.
    call.check()?;
    if reason.is_none() {
        match fs::remove_file(&full) {
            Ok(()) => {
                outcome.deleted += 1;
                outcome.freed_bytes += group.size;
                if outcome.deleted_paths.len() < PATHS_SHOWN {
                    outcome.deleted_paths.push(path.to_owned());
                }
            }
            Err(error) => reason = Some(error.to_string()),
        }
    }
    if let Some(reason) = reason
        && outcome.kept.len() < PATHS_SHOWN
    {
        outcome.kept.push(format!("{path}: {reason}"));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;

    use layby_plugin::{
        testing::Host,
        types::{InputAnswer, Question},
    };

    use super::*;

    /// A folder of its own for each test, with `a/1` = `b/2` = `3`, and `4` beside them.
    fn folder(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("layby-tidy-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in [("a/1", "same"), ("b/2", "same"), ("3", "same"), ("4", "else"), ("empty", "")] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        root
    }

    fn left(root: &Path) -> Vec<&'static str> {
        ["a/1", "b/2", "3", "4"].into_iter().filter(|path| root.join(path).exists()).collect()
    }

    fn run(root: &Path, host: &Host) -> Result<Outcome> {
        host.run(|call| tidy(find::scan(root, 0, call)?, call))
    }

    fn accept(json: &str) -> Host {
        Host::new().answer(InputAnswer::Accepted(json.to_owned()))
    }

    #[test]
    fn one_copy_stays_and_the_form_lists_all() {
        let root = folder("accept");
        let host = accept(r#"{"delete":true}"#);
        let outcome = run(&root, &host).unwrap();
        assert_eq!((outcome.decision, outcome.deleted, outcome.freed_bytes), (Decision::Approved, 2, 8));
        assert_eq!(left(&root), ["3", "4"]);
        let [request] = host.asked().try_into().unwrap();
        let Question::Form(form) = request.question else { panic!("not a form") };
        assert!(form.message.contains("- 3 = a/1 = b/2 (4 bytes each)"), "{}", form.message);
        assert!(form.schema.contains("newest"), "{}", form.schema);
    }

    #[test]
    fn without_approval_nothing_goes() {
        let root = folder("decline");
        let no = [
            (InputAnswer::Declined, Decision::Declined),
            (InputAnswer::Dismissed, Decision::Dismissed),
            (InputAnswer::Accepted(r#"{"delete":false,"keep":"newest"}"#.to_owned()), Decision::Declined),
        ];
        for (answer, decision) in no {
            let outcome = run(&root, &Host::new().answer(answer)).unwrap();
            assert_eq!((outcome.decision, outcome.deleted), (decision, 0));
        }
        assert!(matches!(run(&root, &Host::new()), Err(Error::Unsupported)));
        assert_eq!(left(&root).len(), 4);
    }

    #[test]
    fn what_changed_since_it_was_shown_stays() {
        let root = folder("changed");
        let host = accept(r#"{"delete":true}"#);
        let outcome = host.run(|call| {
            let scan = find::scan(&root, 0, call)?;
            fs::write(root.join("a/1"), "diff").unwrap();
            tidy(scan, call)
        });
        assert_eq!(outcome.unwrap().kept, ["a/1: a/1 has changed"]);
        assert_eq!(left(&root), ["a/1", "3", "4"]);
    }

    #[test]
    fn no_copy_goes_when_the_one_that_stays_is_gone() {
        let root = folder("gone");
        let host = accept(r#"{"delete":true}"#);
        let outcome = host.run(|call| {
            let scan = find::scan(&root, 0, call)?;
            fs::remove_file(root.join("3")).unwrap();
            tidy(scan, call)
        });
        assert_eq!(outcome.unwrap().deleted, 0);
        assert_eq!(left(&root), ["a/1", "b/2", "4"]);
    }

    #[test]
    fn a_cancel_at_any_check_deletes_no_more() {
        let mut checks = 0;
        loop {
            let root = folder("cancel");
            match run(&root, &accept(r#"{"delete":true}"#).cancel_after(checks)) {
                Err(Error::Cancelled) => assert!(left(&root).contains(&"3")),
                Ok(outcome) => {
                    assert_eq!(outcome.deleted, 2);
                    break;
                }
                Err(other) => panic!("{other:?}"),
            }
            checks += 1;
        }
        assert!(checks > 5, "only {checks} checks");
    }

    #[test]
    fn the_newest_is_kept_and_among_equals_the_first() {
        let paths = ["x", "y", "z"].map(str::to_owned).to_vec();
        let group = |modified| Group {
            size: 1,
            sha256: String::new(),
            paths: paths.clone(),
            hash: [0; 32],
            modified,
        };
        assert_eq!(kept(&group(vec![1, 3, 2]), Keep::Newest), 1);
        assert_eq!(kept(&group(vec![5, 5, 5]), Keep::Newest), 0);
        assert_eq!(kept(&group(vec![1, 3, 2]), Keep::First), 0);
    }

    #[test]
    fn a_form_stays_within_its_size() {
        let many = |count: usize| Group {
            size: 1,
            sha256: String::new(),
            paths: (0..count).map(|i| format!("{i:0100}")).collect(),
            hash: [0; 32],
            modified: vec![0; count],
        };
        let scan =
            |groups| Scan { root: PathBuf::new(), files: 0, compared: 0, groups, unreadable: Vec::new() };
        let (message, asked) = question(&scan(vec![many(5000), many(10)]));
        assert!(message.len() < BYTES_ASKED + 200);
        assert!(asked[0].paths.len() >= 100);
        let (message, asked) = question(&scan(vec![many(10); 500]));
        assert!(message.len() < BYTES_ASKED + 200);
        assert!(asked.len() > 20 && asked.iter().all(|group| group.paths.len() == 10));
    }
}
