//! The files of a project at one moment, and what differs between two moments.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::project::{self, Project};
use crate::{
    base::{ByteSize, Digest, read_file},
    config::DevRules,
};

/// One file's state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Of files that are small enough.
    digest: Option<Digest>,
}

impl Stamp {
    /// `left` is how many bytes may still be read.
    fn of(path: &Path, meta: &Metadata, old: Option<&Self>, left: &mut u64) -> Self {
        let mut stamp = Self {
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            digest: None,
        };
        stamp.digest = match old {
            Some(old) if stamp == (Self { digest: None, ..old.clone() }) => old.digest,
            _ if stamp.size <= DevRules::HASHED.min(*left) => {
                *left -= stamp.size;
                read_file(path, ByteSize(stamp.size)).ok().map(|bytes| Digest::of(&bytes))
            }
            _ => None,
        };
        stamp
    }

    /// True where the contents are the same, as far as it is known: a build that writes what was there
    /// already is no change.
    fn same(&self, other: &Self) -> bool {
        match (self.digest, other.digest) {
            (Some(a), Some(b)) => a == b,
            _ => self == other,
        }
    }
}

/// All watched files.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<PathBuf, Stamp>,
    /// The folders that hold them.
    pub(super) folders: BTreeSet<PathBuf>,
    /// There are more than can be watched.
    pub(super) too_many: bool,
}

impl Files {
    /// Looks at all that `project` watches. What `old` knows is not read again. Blocking.
    pub(super) fn look(project: &Project, old: &Self) -> Self {
        let (mut files, mut left) = (Self::default(), DevRules::HASHED_ALL);
        let own = project::file(&project.folder);
        for path in project.watch.iter().chain(&project.policy).chain([&own]) {
            files.add(path, 0, project, old, &mut left);
            // A file that is written anew by a rename is seen by its folder alone.
            files.folders.extend(path.parent().filter(|p| p.is_dir()).map(Path::to_path_buf));
        }
        files
    }

    fn add(&mut self, path: &Path, depth: usize, project: &Project, old: &Self, left: &mut u64) {
        if self.files.len() >= DevRules::FILES || depth > DevRules::DEPTH {
            self.too_many = true;
            return;
        }
        let Ok(meta) = std::fs::metadata(path) else { return };
        if meta.is_file() && path != project.component {
            self.files.insert(path.to_owned(), Stamp::of(path, &meta, old.files.get(path), left));
        }
        if !meta.is_dir() || !self.folders.insert(path.to_owned()) {
            return;
        }
        // A folder that cannot be read is as an empty one.
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let link = entry.file_type().is_ok_and(|t| t.is_symlink()) && entry.path().is_dir();
            if !ignored(&name) && !link {
                self.add(&entry.path(), depth + 1, project, old, left);
            }
        }
    }

    /// Makes those of `paths` that were there before, and are in `now`, as new as this moment: a tool that compares times, such as make, takes a source that was written
    /// while it worked for older than what it made of it. Their contents are as they were. Blocking, for a moment.
    pub(super) fn freshen(&self, now: &Self, paths: &BTreeSet<PathBuf>) {
        // Of others it could not be told afterwards that nothing has changed.
        let known = |path: &&PathBuf| {
            self.files.contains_key(*path) && now.files.get(*path).is_some_and(|stamp| stamp.digest.is_some())
        };
        for path in paths.iter().filter(known) {
            let touched = std::fs::File::options()
                .write(true)
                .open(path)
                .and_then(|file| file.set_modified(std::time::SystemTime::now()));
            if let Err(e) = touched {
                tracing::debug!(path = %path.display(), "a source that changed during its build stays as old as it is: {e}");
            }
        }
    }

    /// The files that differ in `new`.
    pub(super) fn changes(&self, new: &Self) -> BTreeSet<PathBuf> {
        let gone = self.files.keys().filter(|path| !new.files.contains_key(*path));
        let differs =
            |(path, stamp): &(&PathBuf, &Stamp)| !self.files.get(*path).is_some_and(|old| old.same(stamp));
        let changed = new.files.iter().filter(differs).map(|(path, _)| path);
        gone.chain(changed).cloned().collect()
    }
}

/// What builds, package managers and editors write.
fn ignored(name: &str) -> bool {
    name.starts_with('.')
        || (name.starts_with('#') && name.ends_with('#'))
        || DevRules::IGNORED_ENDS.iter().any(|end| name.ends_with(end))
        || DevRules::IGNORED.contains(&name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    fn project(watch: &str) -> (tempfile::TempDir, Project) {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("build = [\"make\"]\ncomponent = \"out/a.wasm\"\n{watch}");
        fs::write(project::file(folder.path()), text).unwrap();
        for name in ["src", "src/deep", "out", "target", ".git", "node_modules/x"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let project = Project::open(folder.path()).unwrap();
        (folder, project)
    }

    fn changed(project: &Project, old: &mut Files) -> Vec<String> {
        let new = Files::look(project, old);
        let changes = old.changes(&new);
        *old = new;
        changes.iter().map(|path| project.shown(path)).collect()
    }

    #[test]
    fn sources_count_and_products_do_not() {
        let (_folder, project) = project("");
        let write = |name: &str, text: &str| fs::write(project.folder.join(name), text).unwrap();
        let mut files = Files::look(&project, &Files::default());
        for product in [
            "out/a.wasm",
            "target/x",
            ".git/x",
            "node_modules/x/y",
            "src/a.c~",
            "src/.a.swp",
            "src/a.log",
            "src/#a.c#",
        ] {
            write(product, "new");
        }
        assert!(changed(&project, &mut files).is_empty());
        write("src/deep/a.c", "1");
        assert_eq!(changed(&project, &mut files), ["src/deep/a.c"]);
        write("src/deep/a.c", "1");
        assert!(changed(&project, &mut files).is_empty(), "the same contents");
        write("src/deep/a.c", "2");
        assert_eq!(changed(&project, &mut files), ["src/deep/a.c"]);
        fs::remove_file(project.folder.join("src/deep/a.c")).unwrap();
        assert_eq!(changed(&project, &mut files), ["src/deep/a.c"]);
    }

    #[test]
    fn only_what_is_named_is_watched_and_the_projects_own_files() {
        let (_folder, project) = project("watch = [\"src\", \"target/x\", \"x.log\"]\npolicy = \"a.toml\"");
        let write = |name: &str| fs::write(project.folder.join(name), name).unwrap();
        let mut files = Files::look(&project, &Files::default());
        for name in ["README.md", "out/b"] {
            write(name);
        }
        assert!(changed(&project, &mut files).is_empty());
        write("a.toml");
        write("src/a.c");
        write("target/x");
        write("x.log");
        assert_eq!(changed(&project, &mut files), ["a.toml", "src/a.c", "target/x", "x.log"]);
    }
}
