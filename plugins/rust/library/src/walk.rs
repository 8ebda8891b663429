//! Which files there are.

use std::{fs, path::Path};

use layby_plugin::prelude::*;

/// Files in one index; more are skipped, and said to be.
const FILES: usize = 20_000;
/// Reasons in a result.
const REASONS: usize = 20;

/// What was left out, and why.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    pub(crate) count: usize,
    pub(crate) reasons: Vec<String>,
}

impl Skipped {
    pub(crate) fn note(&mut self, path: &str, why: impl std::fmt::Display) {
        self.count += 1;
        if self.reasons.len() < REASONS {
            self.reasons.push(format!("{path}: {why}"));
        }
    }
}

/// The regular files under a folder.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Paths under the root, sorted.
    pub(crate) paths: Vec<String>,
    pub(crate) skipped: Skipped,
}

/// Lists every regular file under `root/path`, without following links and without hidden ones.
pub(crate) fn walk(root: &Path, path: &str, call: &Call) -> Result<Walk> {
    let path = path.trim_matches('/');
    if path.split('/').any(|part| part == "..") {
        return Err(Error::failed(format!("`{path}`: a path with `..` leaves the granted folder")));
    }
    let mut walk = Walk::default();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        call.check()?;
        let entries = match fs::read_dir(root.join(&folder)) {
            Ok(entries) => entries,
            Err(error) if folder == path => {
                return Err(Error::failed(format!("cannot list the folder `{path}`: {error}")));
            }
            Err(error) => {
                walk.skipped.note(&folder, error);
                continue;
            }
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && walk.paths.len() == FILES {
                walk.skipped.note(&path, format!("an index has at most {FILES} files"));
            } else if kind.is_file() {
                walk.paths.push(path);
            }
        }
    }
    walk.paths.sort();
    Ok(walk)
}
