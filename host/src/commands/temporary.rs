//! A private host's own folder, for as long as it runs.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use super::exit::Failure;

/// The file in the folder that its owner keeps locked. The system unlocks it when the owner is gone, however it ended.
const LOCK: &str = "owner.lock";

/// Folders without owner that one start removes at most: it is to be quick, and others follow.
const SWEPT: usize = 16;

/// A folder that goes when its owner goes; at the latest, when the next one of that prefix is made.
pub(crate) struct Temporary {
    path: PathBuf,
    _lock: File,
}

impl Temporary {
    /// Makes one that only this user can enter; its name begins with `prefix`. Those whose owners were killed are
    /// removed meanwhile.
    ///
    /// # Errors
    /// `temporary_folder`.
    pub(crate) fn new(prefix: &'static str) -> Result<Self, Failure> {
        let all = std::env::temp_dir();
        let this = Self::make(&all, prefix).map_err(|(path, e)| {
            Failure::unreachable("temporary_folder", format!("{}: cannot be made: {e}", path.display()))
        })?;
        // What it does not come to before the end is left for the next one.
        let _ = std::thread::Builder::new().name("sweep".into()).spawn(move || sweep(&all, prefix));
        Ok(this)
    }

    fn make(all: &Path, prefix: &str) -> Result<Self, (PathBuf, io::Error)> {
        let path = all.join(format!("{prefix}-{}", uuid::Uuid::new_v4()));
        let locked = || {
            fs::DirBuilder::new().mode(0o700).create(&path)?;
            // It gets its name once it is locked: nobody takes the folder for an abandoned one.
            let new = path.join("new.lock");
            let lock = File::create_new(&new)?;
            // Where the file system knows no locks, nothing is ever swept.
            let _ = lock.try_lock();
            fs::rename(&new, path.join(LOCK))?;
            Ok(lock)
        };
        match locked() {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(e) => {
                let _ = fs::remove_dir_all(&path);
                Err((path, e))
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What is left is swept by the next one.
        let _ = empty(&self.path);
    }
}

/// Removes folders of `prefix` in `all` whose owners are gone. Returns how many.
fn sweep(all: &Path, prefix: &str) -> usize {
    let abandoned = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        uuid::Uuid::try_parse(name.strip_prefix(prefix)?.strip_prefix('-')?).ok()?;
        let meta = path.symlink_metadata().ok()?;
        if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() {
            return None;
        }
        let lock = File::open(path.join(LOCK)).ok()?;
        match lock.try_lock() {
            Ok(()) => Some((path, lock)),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        }
    };
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| abandoned(entry.path())).take(SWEPT);
    found.filter(|(path, _lock)| empty(path).is_ok()).count()
}

/// Removes `folder`, its lock last: as long as something is there, it can be found again.
fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(folder.join(LOCK))?;
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_folders_without_owner_are_swept() {
        let all = tempfile::tempdir().unwrap();
        let make = || Temporary::make(all.path(), "layby-x").map_err(|(_, e)| e).unwrap();
        let (mine, killed) = (make(), make());
        for one in [&mine, &killed] {
            fs::create_dir(one.path().join("data")).unwrap();
            fs::write(one.path().join("data/a"), "a").unwrap();
        }
        let gone = killed.path().to_owned();
        // Its end by force: unlocked, and not removed.
        let Temporary { _lock, .. } = &killed;
        _lock.unlock().unwrap();
        std::mem::forget(killed);
        // Other people's folders: without the lock, of another name, links.
        let others = ["layby-x-6f9619ff-8b86-4011-b42d-00c04fc964ff", "layby-x-mine", "other"];
        for name in others {
            fs::create_dir(all.path().join(name)).unwrap();
        }
        fs::write(all.path().join("layby-x-mine").join(LOCK), "").unwrap();
        fs::write(all.path().join("other").join(LOCK), "").unwrap();
        let link = all.path().join("layby-x-6f9619ff-8b86-4011-b42d-00c04fc964fe");
        std::os::unix::fs::symlink(all.path().join("other"), &link).unwrap();
        assert_eq!(sweep(all.path(), "layby-x"), 1);
        assert!(!gone.exists() && mine.path().join("data/a").exists());
        assert!(others.iter().all(|name| all.path().join(name).exists()));
        let path = mine.path().to_owned();
        drop(mine);
        assert!(!path.exists());
    }
}
