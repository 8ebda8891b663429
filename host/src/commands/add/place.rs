//! Putting a component into the plugin folder, whole or not at all, and what the policy beside it says.

use std::{
    fs::{self, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::{
    base::{ByteSize, Digest, read_file, text_of},
    commands::exit::Failure,
    config::{Config, load_policy},
    plugins::policy_path,
};

/// What a component's file may be read by, less what the process's mask takes: the host may run as another user.
const MODE: u32 = 0o644;

/// How the component came into the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    New,
    Replaced,
    /// It had these very bytes.
    Same,
}

/// Puts `bytes` at `path`. The folder's host sees the old file or the new one, and no part of either.
///
/// # Errors
/// There is another component of this name and `replace` is not given, or the file cannot be written.
pub(super) fn put(path: &Path, bytes: &[u8], replace: bool, most: ByteSize) -> Result<Placed, Failure> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(unwritable(path, &e)),
        // Larger than a host reads is in any case not what is to be added.
        Ok(_) if read_file(path, most).is_ok_and(|there| there == bytes) => return Ok(Placed::Same),
        Ok(_) if replace => {
            write(path, bytes, |file| file.persist(path).map(drop))?;
            return Ok(Placed::Replaced);
        }
        Ok(_) => return Err(taken(path)),
    }
    write(path, bytes, |file| file.persist_noclobber(path).map(drop))?;
    Ok(Placed::New)
}

fn write(
    path: &Path,
    bytes: &[u8],
    rename: impl FnOnce(tempfile::NamedTempFile) -> Result<(), tempfile::PersistError>,
) -> Result<(), Failure> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fill = || -> io::Result<tempfile::NamedTempFile> {
        // A host passes over names that begin with a dot.
        let mut builder = tempfile::Builder::new();
        builder.prefix(".layby-add-").permissions(Permissions::from_mode(MODE));
        let mut file = builder.tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let file = fill().map_err(|e| unwritable(path, &e))?;
    rename(file).map_err(|e| match e.error.kind() {
        io::ErrorKind::AlreadyExists => taken(path),
        _ => unwritable(path, &e.error),
    })?;
    // Without this the name may be lost with the machine's power, and the component with it.
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| unwritable(path, &e))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::refused("file_unwritable", format!("{} cannot be written: {error}", path.display()))
}

fn taken(path: &Path) -> Failure {
    let text = format!(
        "{} is another component: give --replace to put this one in its place, or another --name",
        path.display()
    );
    Failure::refused("plugin_exists", text)
}

/// What the policy beside a component says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pin {
    /// There is no policy.
    NoPolicy,
    /// It pins no component.
    None,
    /// It pins this one.
    This,
    /// It pins another one.
    Other(Digest),
    /// It is none, for this reason.
    Unreadable(String),
}

/// The policy's file, and what it says of `digest`.
pub(super) fn pin(folder: &Path, name: &str, digest: Digest, config: &Config) -> (PathBuf, Pin) {
    let path = policy_path(folder, name);
    let text = match read_file(&path, config.catalog.max_policy).and_then(text_of) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return (path, Pin::NoPolicy),
        Err(e) => return (path, Pin::Unreadable(e.to_string())),
        Ok(text) => text,
    };
    let pin = match load_policy(&text, &path, folder, config) {
        Err(e) => Pin::Unreadable(e.reason),
        Ok(policy) => match policy.sha256 {
            None => Pin::None,
            Some(pinned) if pinned == digest => Pin::This,
            Some(other) => Pin::Other(other),
        },
    };
    (path, pin)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn another_component_is_only_replaced_on_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wasm");
        let most = ByteSize::kib(1);
        assert_eq!(put(&path, b"one", false, most).unwrap(), Placed::New);
        assert_eq!(put(&path, b"one", false, most).unwrap(), Placed::Same);
        assert_eq!(put(&path, b"two", false, most).unwrap_err().code, "plugin_exists");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(put(&path, b"two", true, most).unwrap(), Placed::Replaced);
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o177, 0o044 & !mask());
        let folder_there = folder.path().join("b.wasm");
        fs::create_dir(&folder_there).unwrap();
        assert_eq!(put(&folder_there, b"x", false, most).unwrap_err().code, "plugin_exists");
        assert_eq!(put(&folder_there, b"x", true, most).unwrap_err().code, "file_unwritable");
        assert_eq!(
            put(&folder.path().join("none/c.wasm"), b"x", false, most).unwrap_err().code,
            "file_unwritable"
        );
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "nothing is left over: {left:?}");
    }

    /// What new files lose here.
    fn mask() -> u32 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "").unwrap();
        !fs::metadata(&path).unwrap().permissions().mode() & 0o066
    }

    #[test]
    fn the_policy_beside_it_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"one");
        let said = |text: Option<&str>| {
            let path = folder.path().join("a.toml");
            match text {
                Some(text) => fs::write(&path, text).unwrap(),
                None => assert!(!path.exists()),
            }
            pin(folder.path(), "a", digest, &Config::default()).1
        };
        assert_eq!(said(None), Pin::NoPolicy);
        assert_eq!(said(Some("")), Pin::None);
        assert_eq!(said(Some(&format!("sha256 = \"{digest}\""))), Pin::This);
        let other = Digest::of(b"two");
        assert_eq!(said(Some(&format!("sha256 = \"{other}\""))), Pin::Other(other));
        assert!(matches!(said(Some("sha266 = 1")), Pin::Unreadable(_)));
    }
}
