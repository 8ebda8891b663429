//! Writing a project, all of it or nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::files::Files;

/// A folder beside the one to make, removed where it does not become that one.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        // After the renaming it is no more.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes the folder `to` with `files` in it. Nothing is left, and nothing that was there is touched, where it fails.
///
/// # Errors
/// There is something at `to` (`AlreadyExists`), its parent is missing (`NotFound`), or it cannot be written.
pub(super) fn project(to: &Path, files: &Files) -> io::Result<()> {
    if to.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut unique = std::ffi::OsString::from(".");
    unique.push(to.file_name().ok_or(io::ErrorKind::AlreadyExists)?);
    unique.push(format!(".{}.new", std::process::id()));
    let beside = to.with_file_name(unique);
    fs::create_dir(&beside)?;
    let beside = Beside(beside);
    for (path, bytes) in files {
        let file = beside.0.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, bytes)?;
    }
    rename(&beside.0, to)
}

/// Renames without replacing what somebody else put there meanwhile.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system cannot: a rename replaces an empty folder at most.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => fs::rename(from, to),
        other => Ok(other?),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn all_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let good = Files::from([("a/b".to_owned(), Cow::Borrowed(&b"1"[..]))]);
        project(&dir.path().join("p"), &good).unwrap();
        assert_eq!(fs::read(dir.path().join("p/a/b")).unwrap(), b"1");
        // `a` cannot be a file and a folder.
        let torn = Files::from([
            ("a".to_owned(), Cow::Borrowed(&b"1"[..])),
            ("a/b".to_owned(), Cow::Borrowed(&b"2"[..])),
        ]);
        project(&dir.path().join("q"), &torn).unwrap_err();
        assert_eq!(names(dir.path()), ["p"]);
    }

    #[test]
    fn nothing_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::from([("new".to_owned(), Cow::Borrowed(&b"1"[..]))]);
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::write(dir.path().join("file"), "kept").unwrap();
        std::os::unix::fs::symlink("/no/such", dir.path().join("link")).unwrap();
        for there in ["empty", "file", "link"] {
            let error = project(&dir.path().join(there), &files).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{there}");
        }
        fs::create_dir(dir.path().join("meanwhile")).unwrap();
        let error = rename(&dir.path().join("empty"), &dir.path().join("meanwhile")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(dir.path()), ["empty", "file", "link", "meanwhile"]);
        assert!(names(&dir.path().join("empty")).is_empty());
    }
}
