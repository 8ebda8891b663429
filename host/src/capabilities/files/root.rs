//! The way to a granted folder, and what must never be reached by it: what the host itself lives by, and file systems that are not
//! files but the kernel's own.
//!
//! It is gone at each load and again whenever a run opens the folder, because a plugin may write where another grant begins: a link
//! that lies in such a folder is not followed.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStringExt as _, fs::MetadataExt as _},
    },
    path::{Component, Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rustix::fs::{Mode, OFlags};

use super::mounts;

/// Links on the way, as the kernel counts them.
const LINKS: u32 = 40;
/// How deep the host's own folders are, and how much is in them, as far as a hard link is looked for.
const DEPTH: u32 = 4;
const ENTRIES: usize = 100_000;
/// `statfs`'s types of file systems that are no files: procfs, sysfs, debugfs, tracefs, securityfs, SELinux, cgroups of both
/// versions, bpf, configfs, efivarfs, namespaces, devpts, fusectl, binfmt_misc, pstore.
const KERNELS: [u32; 16] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xf97c_ff8c,
    0x0027_e0eb,
    0x6367_7270,
    0xcafe_4a11,
    0x6265_6570,
    0xde5e_81e4,
    0x6e73_6673,
    0x1cd1,
    0x6573_5543,
    0x4249_4e4d,
    0x6165_676c,
];

/// A file or folder, whatever name it is reached by.
type Identity = (u64, u64);

/// Paths that only become more.
struct Paths(Mutex<Vec<PathBuf>>);

impl Paths {
    const fn none() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn add(&self, path: &Path) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|known| known == path) {
            all.push(path.to_owned());
        }
    }

    fn all(&self) -> Vec<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The folders that some plugin may write, as this process has granted them.
static WRITABLE: Paths = Paths::none();
/// The files of secrets of all plugins.
static SECRETS: Paths = Paths::none();

/// From now on what lies in `folder` is a plugin's doing, if it can be granted at all. It stays so to the end: a plugin that is gone
/// has left its links.
pub fn is_written(folder: &Path, own: &[PathBuf]) {
    if open(folder, own).is_ok() {
        WRITABLE.add(folder);
    }
}

/// From now on `file` is what this host lives by, also for folders that were granted before.
pub fn is_secret(file: &Path) {
    SECRETS.add(file);
}

fn writable() -> Vec<Identity> {
    WRITABLE.all().iter().filter_map(|path| identity(path).ok()).collect()
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|m| (m.dev(), m.ino()))
}

/// A folder on the way.
struct Step {
    folder: OwnedFd,
    is: Identity,
}

impl Step {
    fn of(folder: OwnedFd) -> Result<(Self, bool), String> {
        let stat = rustix::fs::fstat(&folder).map_err(|e| e.to_string())?;
        let is_link = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink();
        Ok((Self { folder, is: (stat.st_dev, stat.st_ino) }, is_link))
    }
}

/// Opens the folder `host`, where nothing of `own` is it, above it or below it.
///
/// # Errors
/// Why it is not given.
pub(super) fn open(host: &Path, own: &[PathBuf]) -> Result<OwnedFd, String> {
    let host = std::path::absolute(host).map_err(|e| format!("the folder cannot be found: {e}"))?;
    let way = walk(&host)?;
    let above: Vec<Identity> = way.iter().rev().map(|step| step.is).collect();
    let last = way.last().ok_or("the folder cannot be found")?;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(&last.folder, ".", flags, Mode::empty()).map_err(|e| match e {
        rustix::io::Errno::NOTDIR => "it is not a folder".to_owned(),
        e => format!("the folder cannot be opened: {e}"),
    })?;
    if is_kernels(&folder) {
        return Err("it is no folder of files, but of the kernel's own".to_owned());
    }
    let own = [own, &SECRETS.all()].concat();
    check(&above, &own)?;
    mounts::check(&real(&folder)?, &own)?;
    Ok(folder)
}

/// Where an open folder is.
fn real(folder: &OwnedFd) -> Result<PathBuf, String> {
    use std::os::fd::AsRawFd as _;
    fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
        .map_err(|e| format!("its place cannot be read: {e}"))
}

/// All folders from `/` to `path`, which is absolute.
fn walk(path: &Path) -> Result<Vec<Step>, String> {
    let lost = |e: &dyn std::fmt::Display| format!("the folder cannot be found: {e}");
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = || {
        let root = rustix::fs::open("/", flags, Mode::empty()).map_err(|e| lost(&e))?;
        Step::of(root).map(|(step, _)| step)
    };
    let parts = |path: &Path| -> VecDeque<OsString> {
        let name = |c: Component<'_>| match c {
            Component::CurDir | Component::Prefix(_) => None,
            c => Some(c.as_os_str().to_owned()),
        };
        path.components().filter_map(name).collect()
    };
    let (mut way, mut links) = (vec![root()?], 0);
    let mut rest = parts(path);
    while let Some(name) = rest.pop_front() {
        let top = way.last().ok_or("the folder cannot be found")?;
        if name == "/" {
            way = vec![root()?];
        } else if name == ".." {
            if way.len() > 1 {
                way.pop();
            }
        } else {
            let next = rustix::fs::openat(&top.folder, &name, flags, Mode::empty()).map_err(|e| lost(&e))?;
            let (step, is_link) = Step::of(next)?;
            if !is_link {
                way.push(step);
                continue;
            }
            links += 1;
            if links > LINKS {
                return Err(lost(&"too many links"));
            }
            let written = writable();
            if way.iter().any(|step| written.contains(&step.is)) {
                let name = name.to_string_lossy().into_owned();
                return Err(format!("the link {name:?} on its way lies in a folder that a plugin may write"));
            }
            let target = rustix::fs::readlinkat(&step.folder, "", Vec::new()).map_err(|e| lost(&e))?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            for part in parts(&target).into_iter().rev() {
                rest.push_front(part);
            }
        }
    }
    Ok(way)
}

/// `above` begins with a folder, and has all above it.
fn check(above: &[Identity], own: &[PathBuf]) -> Result<(), String> {
    let Some(folder) = above.first() else { return Ok(()) };
    for path in own {
        let host =
            lineage(&existing(path)).map_err(|e| format!("the host's own folders cannot be read: {e}"))?;
        if host.contains(folder) {
            return Err(
                "it is or contains a folder of the host itself (data, plugins, configuration, keys or secrets)".into(),
            );
        }
        if path.exists() && host.first().is_some_and(|is| above.contains(is)) {
            return Err(
                "it lies inside a folder of the host itself (data, plugins, configuration, keys or secrets)"
                    .into(),
            );
        }
    }
    Ok(())
}

/// `path` without links, or the nearest folder above it that is there.
fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().find_map(|p| fs::canonicalize(p).ok()).unwrap_or_else(|| "/".into())
}

/// What `path` is, and all folders above it.
fn lineage(path: &Path) -> io::Result<Vec<Identity>> {
    path.ancestors().map(identity).collect()
}

/// True for what is on a file system of the kernel's own.
pub(super) fn is_kernels(open: impl AsFd) -> bool {
    // Its width differs between machines; all of these fit into 32 bits.
    rustix::fs::fstatfs(open).is_ok_and(|found| KERNELS.contains(&(found.f_type as u32)))
}

/// True for a file of the host's own under another name: a hard link to it.
pub(super) fn is_own(open: impl AsFd, own: &[PathBuf]) -> bool {
    let Ok(stat) = rustix::fs::fstat(open) else { return true };
    if stat.st_nlink < 2 {
        return false;
    }
    let mut left = ENTRIES;
    own.iter().chain(&SECRETS.all()).any(|path| has(path, (stat.st_dev, stat.st_ino), DEPTH, &mut left))
}

fn has(path: &Path, wanted: Identity, depth: u32, left: &mut usize) -> bool {
    let Ok(meta) = fs::metadata(path) else { return false };
    if meta.is_file() {
        return (meta.dev(), meta.ino()) == wanted;
    }
    if depth == 0 || meta.dev() != wanted.0 {
        return false;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        *left = left.saturating_sub(1);
        if *left == 0 {
            // More than can be looked through: it may be.
            return true;
        }
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let found = if is_folder {
            has(&entry.path(), wanted, depth - 1, left)
        } else {
            entry.metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == wanted)
        };
        if found {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_the_kernels_is_no_folder() {
        for folder in ["/proc", "/proc/self", "/proc/self/fd", "/proc/thread-self"] {
            let refused = open(Path::new(folder), &[]).unwrap_err();
            assert!(refused.contains("kernel's own"), "{folder}: {refused}");
        }
        // Through links, which lead out of it.
        assert!(open(Path::new("/proc/self/cwd"), &[]).is_ok());
        assert!(is_kernels(fs::File::open("/proc/self/environ").unwrap()));
        assert!(!is_kernels(fs::File::open("/").unwrap()));
    }

    #[test]
    fn links_are_followed_but_where_a_plugin_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for folder in ["a/b", "written/sub", "outside"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        symlink("a/b", path("to-b")).unwrap();
        symlink(path("to-b"), path("to-to-b")).unwrap();
        symlink("a/../a/./b/..", path("around")).unwrap();
        symlink("loop", path("loop")).unwrap();
        symlink("../outside", path("written/led")).unwrap();
        symlink("written/led", path("to-led")).unwrap();
        for fine in [
            "a/b",
            "to-b",
            "to-to-b",
            "around",
            "around/b/..",
            "written",
            "written/sub",
            "written/led",
            "to-led",
        ] {
            assert!(open(&path(fine), &[]).is_ok(), "{fine}");
        }
        assert!(open(&path("loop"), &[]).unwrap_err().contains("too many links"));
        assert!(open(&path("none/.."), &[]).unwrap_err().contains("cannot be found"));
        is_written(&path("written"), &[]);
        is_written(Path::new("/proc"), &[]);
        for fine in ["a/b", "to-to-b", "written", "written/sub", "written/sub/.."] {
            assert!(open(&path(fine), &[]).is_ok(), "{fine}");
        }
        for led in ["written/led", "to-led", "written/sub/../led"] {
            assert!(open(&path(led), &[]).unwrap_err().contains("a plugin may write"), "{led}");
        }
    }

    #[test]
    fn hard_links_to_what_is_the_hosts_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("data/keys")).unwrap();
        for file in ["data/keys/key", "data/db", "token", "a"] {
            fs::write(path(file), file).unwrap();
        }
        for (from, to) in [("data/keys/key", "key"), ("data/db", "db"), ("token", "second"), ("a", "b")] {
            fs::hard_link(path(from), path(to)).unwrap();
        }
        let own = [path("data"), path("token"), path("none")];
        for (name, is) in
            [("key", true), ("db", true), ("second", true), ("token", true), ("a", false), ("b", false)]
        {
            assert_eq!(super::is_own(fs::File::open(path(name)).unwrap(), &own), is, "{name}");
        }
    }

    #[test]
    fn a_secret_that_comes_later_is_not_given_with_a_folder_that_was_before() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("in");
        fs::create_dir(&folder).unwrap();
        assert!(open(&folder, &[]).is_ok());
        // Also while there is none yet.
        is_secret(&folder.join("token"));
        assert!(open(&folder, &[]).unwrap_err().contains("secrets"));
    }
}
