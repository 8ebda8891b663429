//! Components by digest, under the data folder: what serves is on disk before it serves, and stays
//! as long as a task or the catalog names it.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    base::{ByteSize, Digest, private_folder, read_file},
    config::CatalogConfig,
};

/// The folder of kept components.
#[derive(Debug)]
pub(super) struct Keep {
    folder: PathBuf,
}

impl Keep {
    /// Files younger than this are never collected: another process may be about to name them.
    pub(super) const YOUNG: Duration = Duration::from_secs(3600);

    /// The folder below `data`, made where it is missing.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let folder = data.join("components");
        private_folder(&folder)?;
        Ok(Self { folder })
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{digest}.wasm"))
    }

    fn signature_path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{digest}.wasm.minisig"))
    }

    /// Stores the signature under which `digest` is loaded; on disk when it returns. Blocking.
    pub(super) fn put_signature(&self, digest: Digest, signature: &[u8]) -> io::Result<()> {
        let path = self.signature_path(digest);
        let known = read_file(&path, CatalogConfig::SIGNATURE).is_ok_and(|known| known == signature);
        self.store(digest, &path, signature, known)
    }

    /// The signature that was stored last for `digest`; none where there is none. Blocking.
    pub(super) fn signature(&self, digest: Digest) -> io::Result<Option<Vec<u8>>> {
        match read_file(&self.signature_path(digest), CatalogConfig::SIGNATURE) {
            Ok(signature) => Ok(Some(signature)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Stores `bytes`, whose digest is `digest`; on disk when it returns. Blocking.
    pub(super) fn put(&self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(digest);
        let known = self.get(digest, ByteSize(bytes.len() as u64)).is_ok();
        self.store(digest, &path, bytes, known)
    }

    /// Writes `path`, unless it is `known` to have these bytes.
    fn store(&self, digest: Digest, path: &Path, bytes: &[u8], known: bool) -> io::Result<()> {
        if known {
            // Young again, so that it is not collected before its row is written.
            return File::options().write(true).open(path)?.set_modified(std::time::SystemTime::now());
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!(".{}.{}.{unique}", digest.short(), std::process::id()));
        let written = File::create(&temporary)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            drop(fs::remove_file(&temporary));
        }
        written?;
        File::open(&self.folder)?.sync_all()
    }

    /// The bytes of `digest`, checked against it. Blocking.
    pub(super) fn get(&self, digest: Digest, limit: ByteSize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(digest))?.take(limit.0.saturating_add(1)).read_to_end(&mut bytes)?;
        if Digest::of(&bytes) == digest {
            return Ok(bytes);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the kept bytes of {} are damaged", digest.short()),
        ))
    }

    /// Drops what is older than `age` and not in `used`; returns how many files. Blocking.
    pub(super) fn collect(&self, used: &HashSet<Digest>, age: Duration) -> io::Result<usize> {
        let mut dropped = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let file = entry.file_name();
            let name = file.to_string_lossy();
            let stem = name.strip_suffix(".minisig").unwrap_or(&name).strip_suffix(".wasm");
            let digest = stem.and_then(|hex| hex.parse::<Digest>().ok());
            let ours = digest.is_some() || name.starts_with('.');
            if !ours || digest.is_some_and(|d| used.contains(&d)) {
                continue;
            }
            let old = entry.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            if old.is_some_and(|old| old >= age) && fs::remove_file(entry.path()).is_ok() {
                dropped += 1;
            }
        }
        Ok(dropped)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn bytes_are_kept_checked_and_collected() {
        let dir = tempfile::tempdir().unwrap();
        let keep = Keep::open(dir.path()).unwrap();
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        keep.put(a, b"a").unwrap();
        keep.put(a, b"a").unwrap();
        keep.put(b, b"b").unwrap();
        assert_eq!(keep.get(a, ByteSize(10)).unwrap(), b"a");

        fs::write(keep.path(a), "x").unwrap();
        assert!(keep.get(a, ByteSize(10)).is_err(), "damage is seen");
        keep.put(a, b"a").unwrap();
        assert_eq!(keep.get(a, ByteSize(10)).unwrap(), b"a", "and mended");

        for (digest, signature) in [(a, b"old"), (a, b"new"), (a, b"new"), (b, b"two")] {
            keep.put_signature(digest, signature).unwrap();
            assert_eq!(keep.signature(digest).unwrap().unwrap(), signature);
        }
        assert_eq!(keep.signature(Digest::of(b"c")).unwrap(), None);

        let used = HashSet::from([a]);
        assert_eq!(keep.collect(&used, Keep::YOUNG).unwrap(), 0, "the young stay");
        assert_eq!(keep.collect(&used, Duration::ZERO).unwrap(), 2);
        assert!(keep.signature(a).unwrap().is_some() && keep.signature(b).unwrap().is_none());
        assert!(keep.get(a, ByteSize(10)).is_ok() && keep.get(b, ByteSize(10)).is_err());
        let left = fs::read_dir(dir.path().join("components")).unwrap().count();
        assert_eq!(left, 2, "no temporary file stays");
    }
}
