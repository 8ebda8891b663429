//! Compiled components on disk, under a MAC: whoever can write machine code into this folder could
//! run anything as this process, so only bytes that this host has written itself are ever loaded.

use std::{
    fs::{self, File},
    hash::{Hash, Hasher},
    io::{self, Read},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::Context;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256};

use crate::base::{Digest, KEY_BYTES, make_key, own_folder, read_keys, temp_name, write_new};

/// Compiled forms kept. More than twice the plugins of a large host, so that rollbacks stay warm.
const MAX_FORMS: usize = 128;
/// Bytes of all compiled forms. Python's is about 60 MB.
const MAX_BYTES: u64 = 4 << 30;
/// Length of the MAC after the code.
const MAC_BYTES: usize = 32;
/// Bytes that are read at once to check a MAC.
const CHUNK: usize = 1 << 20;

/// A compiled form whose MAC has been checked. It is mapped and not read into memory: pages that no run touches
/// cost nothing, and those of a runtime as large as Python's may be dropped and read again.
pub(super) struct Form(File);

impl Form {
    /// A path to the very file that was checked, whatever has become of its name since. Valid while this lives.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// The folder `compiled` and the key that its files are signed with.
pub(super) struct Cache {
    folder: PathBuf,
    key: [u8; KEY_BYTES],
    /// Differs where code compiled by one engine cannot be loaded by the other.
    compatibility: [u8; 32],
}

impl Cache {
    /// Opens or makes `data/compiled` and `data/keys/compile.key`.
    ///
    /// # Errors
    /// A folder or key that cannot be made, belongs to somebody else, or is open to others.
    pub(super) fn open(data: &Path, engine: &wasmtime::Engine) -> anyhow::Result<Self> {
        let folder = data.join("compiled");
        let keys = data.join("keys");
        own_folder(&folder)?;
        own_folder(&keys)?;
        let file = keys.join("compile.key");
        make_key(&file)?;
        let keys = read_keys(&file, 1, "remove it, and components are compiled again")?;
        let key = *keys.first().context("there is no key")?;
        let mut hash = Hash256(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hash);
        Ok(Self { folder, key, compatibility: hash.0.finalize().into() })
    }

    /// The verified form of `digest`, or `None` where there is none that this engine can load.
    pub(super) fn load(&self, digest: Digest) -> Option<Form> {
        let path = self.path(digest);
        match self.verified(digest, &path) {
            Ok(Some(form)) => return Some(form),
            // Also what an update of wasmtime or of the configuration looks like.
            Ok(None) => {
                tracing::debug!(path = %path.display(), "a compiled form is not from this engine and key, compiling again");
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => {
                tracing::warn!(path = %path.display(), "a compiled form cannot be read, compiling again: {e}");
            }
        }
        None
    }

    /// Opens a form and checks it.
    fn verified(&self, digest: Digest, path: &Path) -> io::Result<Option<Form>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let Some(code) = length.checked_sub(MAC_BYTES as u64) else { return Ok(None) };
        let mut mac = self.mac(digest);
        let mut chunk = vec![0; CHUNK];
        let mut reader = (&mut file).take(code);
        loop {
            let n = reader.read(&mut chunk)?;
            if n == 0 {
                break;
            }
            mac.update(&chunk[..n]);
        }
        let mut told = [0; MAC_BYTES];
        if file.read_exact(&mut told).is_err() || mac.verify_slice(&told).is_err() {
            return Ok(None);
        }
        // Last use, for eviction; failing to note it only evicts earlier.
        let _ = file.set_modified(SystemTime::now());
        Ok(Some(Form(file)))
    }

    /// Keeps `code` as the compiled form of `digest`, and lets the least recently used forms go.
    ///
    /// # Errors
    /// The file cannot be written; nothing is left behind.
    pub(super) fn save(&self, digest: Digest, code: &[u8]) -> io::Result<()> {
        let mut mac = self.mac(digest);
        mac.update(code);
        write_private(&self.path(digest), &[code, &mac.finalize().into_bytes()])?;
        self.evict()
    }

    /// True where a form of `digest` is there; whether it loads is seen by loading it.
    pub(super) fn has(&self, digest: Digest) -> bool {
        self.path(digest).is_file()
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{digest}.code"))
    }

    /// The MAC of the form of `digest`, before its code.
    fn mac(&self, digest: Digest) -> Hmac<Sha256> {
        let mut mac = new_mac(&self.key);
        mac.update(&digest.0);
        mac.update(&self.compatibility);
        mac
    }

    fn evict(&self) -> io::Result<()> {
        let mut forms = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if meta.is_file() {
                forms.push((meta.modified()?, meta.len(), entry.path()));
            }
        }
        forms.sort();
        let mut bytes: u64 = forms.iter().map(|f| f.1).sum();
        let mut count = forms.len();
        for (_, len, path) in forms {
            if count <= MAX_FORMS && bytes <= MAX_BYTES {
                break;
            }
            fs::remove_file(path)?;
            bytes -= len;
            count -= 1;
        }
        Ok(())
    }
}

fn new_mac(key: &[u8; KEY_BYTES]) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("a key")
}

/// Replaces `path` in one step.
fn write_private(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let temp = temp_name(path);
    write_new(&temp, parts)?;
    fs::rename(&temp, path).inspect_err(|_| drop(fs::remove_file(&temp)))
}

/// Lets a `Hash` be hashed by SHA-256.
struct Hash256(Sha256);

impl Hasher for Hash256 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        // Nobody asks: the digest is read from the inside.
        0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn cache(data: &Path) -> anyhow::Result<Cache> {
        Cache::open(data, &wasmtime::Engine::default())
    }

    #[test]
    fn only_what_this_host_wrote_is_loaded() {
        let data = tempfile::tempdir().unwrap();
        let c = cache(data.path()).unwrap();
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        assert!(c.load(a).is_none());
        c.save(a, b"code").unwrap();
        let form = c.load(a).unwrap();
        assert!(fs::read(form.path()).unwrap().starts_with(b"code"));
        assert!(cache(data.path()).unwrap().load(a).is_some());
        // Another component's code under this name.
        fs::copy(c.path(a), c.path(b)).unwrap();
        assert!(c.load(b).is_none());
        let mut bytes = fs::read(c.path(a)).unwrap();
        for at in [0, bytes.len() - 1] {
            bytes[at] ^= 1;
            fs::write(c.path(a), &bytes).unwrap();
            assert!(c.load(a).is_none());
            bytes[at] ^= 1;
        }
        // What was checked is what is loaded, also where another file has taken its name.
        fs::write(c.path(b), &bytes).unwrap();
        fs::rename(c.path(b), c.path(a)).unwrap();
        let form = c.load(a).unwrap();
        fs::write(c.path(b), b"other").unwrap();
        fs::rename(c.path(b), c.path(a)).unwrap();
        assert_eq!(fs::read(form.path()).unwrap(), bytes);
        fs::write(c.path(a), b"short").unwrap();
        assert!(c.load(a).is_none());
        fs::write(data.path().join("keys/compile.key"), [7; 32]).unwrap();
        c.save(a, b"code").unwrap();
        assert!(cache(data.path()).unwrap().load(a).is_none());
    }

    #[test]
    fn folders_open_to_others_are_refused() {
        let data = tempfile::tempdir().unwrap();
        drop(cache(data.path()).unwrap());
        for (path, mode) in [("compiled", 0o755), ("keys", 0o770), ("keys/compile.key", 0o644)] {
            let path = data.path().join(path);
            let before = fs::metadata(&path).unwrap().permissions();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let refused = cache(data.path()).err().unwrap().to_string();
            assert!(refused.contains("open to other users"), "{refused}");
            fs::set_permissions(&path, before).unwrap();
        }
        assert!(cache(data.path()).is_ok());
    }

    #[test]
    fn the_oldest_go_first() {
        let data = tempfile::tempdir().unwrap();
        let c = cache(data.path()).unwrap();
        for n in 0..=MAX_FORMS {
            let digest = Digest::of(&n.to_le_bytes());
            c.save(digest, b"code").unwrap();
            let age = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(n as u64);
            File::open(c.path(digest)).unwrap().set_modified(age).unwrap();
        }
        c.save(Digest::of(b"new"), b"code").unwrap();
        assert_eq!(fs::read_dir(&c.folder).unwrap().count(), MAX_FORMS);
        assert!(c.load(Digest::of(&0_usize.to_le_bytes())).is_none());
        assert!(c.load(Digest::of(b"new")).is_some());
    }
}
