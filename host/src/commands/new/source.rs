//! Where the files of new projects come from. `build.rs` uses this too, and knows nothing else of the crate.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Folders of the repository, by their path from the crate, and the first part of their names in the binary.
const SOURCES: [(&str, &str); 3] = [("templates", "template"), ("../plugins/sdk", "kit"), ("../wit", "wit")];

/// Folders that tools leave behind.
const LEFT: [&str; 3] = ["node_modules", "target", "__pycache__"];

/// What a project has no use for: what tools leave behind, hidden folders, and a kit's own tests.
fn skipped(name: &str, folder: bool, template: bool) -> bool {
    if folder {
        name.starts_with('.')
            || LEFT.contains(&name)
            || name.ends_with(".egg-info")
            || (!template && ["test", "tests"].contains(&name))
    } else {
        let test = name.starts_with("test_") || name.contains("_test.") || name.contains(".test.");
        name.ends_with(".pyc") || (!template && (name.starts_with('.') || test))
    }
}

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    /// Name in the binary, and path.
    pub(crate) files: Vec<(String, PathBuf)>,
    /// Folders of which nothing was skipped, however deep.
    pub(crate) whole: Vec<PathBuf>,
}

/// All that goes into projects, from the crate's folder `here`.
///
/// # Errors
/// A folder cannot be listed.
pub(crate) fn find(here: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for (folder, name) in SOURCES {
        walk(&here.join(folder), name, &mut found)?;
    }
    found.files.sort();
    Ok(found)
}

/// Adds what is under `folder`; tells whether nothing was skipped.
fn walk(folder: &Path, name: &str, found: &mut Found) -> io::Result<bool> {
    let mut whole = true;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let own = path.file_name().unwrap_or_default().to_string_lossy();
        let inner = format!("{name}/{own}");
        if skipped(&own, path.is_dir(), name.starts_with("template")) {
            whole = false;
        } else if path.is_dir() {
            whole &= walk(&path, &inner, found)?;
        } else {
            found.files.push((inner, path));
        }
    }
    if whole {
        found.whole.push(folder.to_owned());
    }
    Ok(whole)
}
