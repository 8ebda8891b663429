//! Keys of this host, in files that nobody else can read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use super::{ByteSize, private_folder, read_bounded};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Makes `folder` with mode 0700, or checks that nobody else can get at it.
///
/// # Errors
/// It cannot be made, belongs to somebody else, or is open to others.
pub fn own_folder(folder: &Path) -> anyhow::Result<()> {
    if let Err(e) = private_folder(folder) {
        bail!("{}: cannot be made: {e}", folder.display());
    }
    let meta = fs::symlink_metadata(folder).with_context(|| folder.display().to_string())?;
    private(folder, &meta, meta.is_dir(), "a folder")
}

/// Makes a file with a fresh key where there is none. Of several processes that do it at once, one wins.
///
/// # Errors
/// It cannot be made; the system has no randomness.
pub fn make_key(path: &Path) -> anyhow::Result<()> {
    if path.try_exists().with_context(|| path.display().to_string())? {
        return Ok(());
    }
    let mut fresh = [0; KEY_BYTES];
    getrandom::fill(&mut fresh).map_err(|e| anyhow::anyhow!("the system gives no random bytes: {e}"))?;
    let temp = temp_name(path);
    write_new(&temp, &[&fresh]).with_context(|| path.display().to_string())?;
    let linked = fs::hard_link(&temp, path);
    fs::remove_file(&temp)?;
    match linked {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            bail!("{}: cannot be made: {e}", path.display())
        }
        _ => Ok(()),
    }
}

/// The keys in a file: one, or several up to `most`, without anything between them. `advice` is for one that is damaged.
///
/// # Errors
/// It cannot be read, is no whole number of keys, belongs to somebody else, or is open to others.
pub fn read_keys(path: &Path, most: usize, advice: &str) -> anyhow::Result<Vec<[u8; KEY_BYTES]>> {
    // Not blocking: opening a pipe would wait for somebody to write into it.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.with_context(|| path.display().to_string())?;
    let meta = file.metadata()?;
    private(path, &meta, meta.is_file(), "a regular file")?;
    let bytes = read_bounded(file, ByteSize((most * KEY_BYTES) as u64));
    let bytes = bytes.with_context(|| format!("{}: cannot be read as a key", path.display()))?;
    let (keys, rest) = bytes.as_chunks::<KEY_BYTES>();
    if keys.is_empty() || !rest.is_empty() {
        let path = path.display();
        bail!("{path}: is damaged: it has {} bytes, and a key has {KEY_BYTES}; {advice}", bytes.len());
    }
    Ok(keys.to_vec())
}

fn private(path: &Path, meta: &fs::Metadata, right_kind: bool, kind: &str) -> anyhow::Result<()> {
    let path = path.display();
    if !right_kind {
        bail!("{path}: is not {kind}; remove it");
    }
    let me = rustix::process::geteuid().as_raw();
    // What root hands to a service may be readable by the service's group: root itself can read everything.
    let (of_root, mine) = (meta.uid() == 0, meta.uid() == me);
    if !mine && !of_root {
        bail!(
            "{path}: belongs to user {}, not to this process's user {me}; remove it or change its owner",
            meta.uid()
        );
    }
    if meta.mode() & if mine { 0o077 } else { 0o037 } != 0 {
        bail!(
            "{path}: is open to other users (mode {:o}); `chmod go= {path}` closes it",
            meta.mode() & 0o777
        );
    }
    Ok(())
}

/// A name beside `path` that nobody else has.
pub fn temp_name(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.tmp", uuid::Uuid::new_v4().simple()))
}

/// Writes a new file that only this user can read.
///
/// # Errors
/// It is there already, or cannot be written; then nothing is left of it.
pub fn write_new(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = parts.iter().try_for_each(|p| file.write_all(p)).and_then(|()| file.sync_data());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        make_key(&path).unwrap();
        let made = read_keys(&path, 1, "").unwrap();
        make_key(&path).unwrap();
        assert_eq!(read_keys(&path, 1, "").unwrap(), made);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        let why = |bytes: &[u8], most| {
            fs::write(&path, bytes).unwrap();
            read_keys(&path, most, "mend it").map_err(|e| format!("{e:#}"))
        };
        assert_eq!(why(&[1; 64], 2), Ok(vec![[1; 32]; 2]));
        for (bytes, text) in [
            (&[1; 64][..], "larger than 32"),
            (&[1; 31], "31 bytes, and a key has 32; mend it"),
            (&[], "0 bytes"),
        ] {
            let refused = why(bytes, 1).unwrap_err();
            assert!(refused.contains(text) && refused.contains("a.key"), "{refused}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(why(&[1; 32], 1).unwrap_err().contains("open to other users"));
        assert!(read_keys(folder.path(), 1, "").unwrap_err().to_string().contains("not a regular file"));
    }
}
