//! Writing a project, all of it or nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
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

/// Makes the folder `to` with `files` in it. Nothing is left, and nothing that was there is touched, where it fails
/// or `stop` is set before it is done.
///
/// # Errors
/// There is something at `to` (`AlreadyExists`), its parent is missing (`NotFound`), it was stopped (`Interrupted`),
/// or it cannot be written.
pub(super) fn project(to: &Path, files: &Files, stop: &AtomicBool) -> io::Result<()> {
    if to.file_name().is_none() || to.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // Of no length that depends on the name, and of no process that was before.
    let beside = to.with_file_name(format!(".layby-new-{}", uuid::Uuid::new_v4().simple()));
    fs::create_dir(&beside)?;
    let beside = Beside(beside);
    let go_on = || match stop.load(Ordering::SeqCst) {
        true => Err(io::Error::from(io::ErrorKind::Interrupted)),
        false => Ok(()),
    };
    for (path, bytes) in files {
        go_on()?;
        let file = beside.0.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, bytes)?;
    }
    go_on()?;
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

    static GO: AtomicBool = AtomicBool::new(false);

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
        project(&dir.path().join("p"), &good, &GO).unwrap();
        assert_eq!(fs::read(dir.path().join("p/a/b")).unwrap(), b"1");
        // `a` cannot be a file and a folder.
        let torn = Files::from([
            ("a".to_owned(), Cow::Borrowed(&b"1"[..])),
            ("a/b".to_owned(), Cow::Borrowed(&b"2"[..])),
        ]);
        project(&dir.path().join("q"), &torn, &GO).unwrap_err();
        assert_eq!(names(dir.path()), ["p"]);
    }

    #[test]
    fn nothing_is_left_where_it_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::from([("a/b".to_owned(), Cow::Borrowed(&b"1"[..]))]);
        let error = project(&dir.path().join("p"), &files, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn the_folder_may_have_the_longest_name_of_the_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let name = "n".repeat(255);
        project(&dir.path().join(&name), &Files::new(), &GO).unwrap();
        assert_eq!(names(dir.path()), [name]);
    }

    #[test]
    fn nothing_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::from([("new".to_owned(), Cow::Borrowed(&b"1"[..]))]);
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::write(dir.path().join("file"), "kept").unwrap();
        std::os::unix::fs::symlink("/no/such", dir.path().join("link")).unwrap();
        for there in ["empty", "file", "link"] {
            let error = project(&dir.path().join(there), &files, &GO).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{there}");
        }
        fs::create_dir(dir.path().join("meanwhile")).unwrap();
        let error = rename(&dir.path().join("empty"), &dir.path().join("meanwhile")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(dir.path()), ["empty", "file", "link", "meanwhile"]);
        assert!(names(&dir.path().join("empty")).is_empty());
    }
}
