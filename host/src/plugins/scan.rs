//! The folder: which plugins it holds, when a pair of component and policy has settled, and
//! reading the pair once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, Metadata},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::problem::{Problem, neutral};
use crate::{base::ByteSize, config::CatalogConfig};

/// Longest name of a plugin.
const NAME_LENGTH: usize = 64;

/// What tells one state of a file from another. The change time is there because copies can
/// set the modification time, but not that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// How long ago the file last changed by the system's clock; zero where that lies ahead.
    fn age(&self) -> Duration {
        let (seconds, nanos) = self.changed;
        let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
        SystemTime::now().duration_since(UNIX_EPOCH + changed).unwrap_or_default()
    }
}

/// A component with its policy file and, where signatures count, its signature, as the folder has them at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    component: Stamp,
    policy: Option<Stamp>,
    signature: Option<Stamp>,
}

impl Pair {
    /// How long all have been unchanged, by their own times.
    pub(super) fn age(&self) -> Duration {
        let beside = [self.policy, self.signature].into_iter().flatten().map(|file| file.age());
        beside.fold(self.component.age(), Duration::min)
    }
}

/// One look at the folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By plugin name; `Err` where the files are there but cannot be looked at.
    pub(super) plugins: BTreeMap<String, Result<Pair, String>>,
    /// Policy files, with or without component.
    pub(super) policies: BTreeSet<String>,
    /// Component files whose names make no plugin name, neutral.
    pub(super) misnamed: BTreeSet<String>,
    /// The folder itself (device and inode): another one needs another watch.
    pub(super) folder: (u64, u64),
}

/// Looks at `folder` once, at signatures too where they count. Blocking.
///
/// # Errors
/// The folder cannot be listed; nothing can be said about any plugin then.
pub(super) fn scan(folder: &Path, signed: bool) -> io::Result<Found> {
    let meta = std::fs::metadata(folder)?;
    let mut found = Found { folder: (meta.dev(), meta.ino()), ..Found::default() };
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.file_name();
        let text = file.to_string_lossy();
        if text.starts_with('.') {
            continue;
        }
        if let Some(stem) = text.strip_suffix(".wasm") {
            if is_plugin_name(stem) {
                names.insert(stem.to_owned());
            } else {
                found.misnamed.insert(neutral(stem, NAME_LENGTH));
            }
        } else if let Some(stem) = text.strip_suffix(".toml")
            && is_plugin_name(stem)
        {
            found.policies.insert(stem.to_owned());
        }
    }
    for name in names {
        match look(folder, &name, signed) {
            Ok(Some(pair)) => drop(found.plugins.insert(name, Ok(pair))),
            Ok(None) => {}
            Err(reason) => drop(found.plugins.insert(name, Err(reason))),
        }
    }
    Ok(found)
}

/// What [`is_plugin_name`] takes, for people.
pub const PLUGIN_NAME: &str = "1 to 64 of A-Z a-z 0-9 _ - ., no dot first";

/// Whether a plugin may be so named: safe in paths, logs and tables.
pub fn is_plugin_name(name: &str) -> bool {
    super::declare::is_name(name) && name.len() <= NAME_LENGTH && !name.starts_with('.')
}

/// `NAME.wasm` in `folder`.
pub fn component_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.wasm"))
}

/// `NAME.toml` in `folder`.
pub fn policy_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.toml"))
}

/// `NAME.wasm.minisig` in `folder`, as minisign names it.
pub fn signature_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.wasm.minisig"))
}

/// The pair of `name` now; none where there is no component.
fn look(folder: &Path, name: &str, signed: bool) -> Result<Option<Pair>, String> {
    let Some(component) = stamp(&component_path(folder, name))? else { return Ok(None) };
    let policy = stamp(&policy_path(folder, name))?;
    let signature = if signed { stamp(&signature_path(folder, name))? } else { None };
    Ok(Some(Pair { component, policy, signature }))
}

fn stamp(path: &Path) -> Result<Option<Stamp>, String> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => Ok(Some(Stamp::of(&meta))),
        Ok(_) => Err(format!("{} is not a regular file", path.display())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("{} cannot be looked at: {e}", path.display())),
    }
}

/// When a pair was first seen as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pair: Pair,
    since: Instant,
}

impl Seen {
    /// `pair` seen at `now`. `before` is what was seen last. `age` counts as seen already.
    pub(super) fn observe(before: Option<Self>, pair: Pair, now: Instant, age: Duration) -> Self {
        match before {
            Some(seen) if seen.pair == pair => seen,
            _ => Self { pair, since: now.checked_sub(age).unwrap_or(now) },
        }
    }

    /// The pair.
    pub(super) fn pair(&self) -> Pair {
        self.pair
    }

    /// When the pair may be read, if nothing changes.
    pub(super) fn settled_at(&self, settle: Duration) -> Instant {
        self.since + settle
    }
}

/// How reading a pair ended.
#[derive(Debug)]
pub(super) enum Read {
    /// The files are not as they were seen: wait for them to settle again.
    Changed,
    /// All, as one.
    Done {
        /// The component.
        bytes: Vec<u8>,
        /// The policy file's text, empty without one.
        text: String,
        /// The signature's file, where signatures count and there is one.
        signature: Option<Vec<u8>>,
    },
    /// Bytes that cannot be taken.
    Refused(Problem),
}

/// Reads the pair that was seen, once, into memory. Blocking.
pub(super) fn read(folder: &Path, name: &str, seen: &Pair, bounds: &CatalogConfig) -> Read {
    let component = component_path(folder, name);
    if seen.component.size > bounds.max_component.0 {
        return Read::Refused(Problem::too_large(format!(
            "the component has {} bytes, more than `max-component` allows ({})",
            seen.component.size, bounds.max_component
        )));
    }
    if let Some(policy) = seen.policy.filter(|p| p.size > bounds.max_policy.0) {
        return Read::Refused(Problem::too_large(format!(
            "the policy file has {} bytes, more than `max-policy` allows ({})",
            policy.size, bounds.max_policy
        )));
    }
    let most = CatalogConfig::SIGNATURE;
    if let Some(signature) = seen.signature.filter(|s| s.size > most.0) {
        let reason =
            format!("the file of the signature has {} bytes, more than one has ({most})", signature.size);
        return Read::Refused(Problem::bad_signature(reason));
    }
    let unreadable = |path: &Path, e: io::Error| {
        Read::Refused(Problem::unreadable(format!("{} cannot be read: {e}", path.display())))
    };
    let bytes = match read_one(&component, &seen.component, bounds.max_component) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Read::Changed,
        Err(e) => return unreadable(&component, e),
    };
    let beside = |path: PathBuf, stamp: Option<Stamp>, most| match stamp.map(|s| read_one(&path, &s, most)) {
        None => Ok(None),
        Some(Ok(Some(bytes))) => Ok(Some(bytes)),
        Some(Ok(None)) => Err(Read::Changed),
        Some(Err(e)) => Err(unreadable(&path, e)),
    };
    let text = match beside(policy_path(folder, name), seen.policy, bounds.max_policy) {
        Ok(text) => text.unwrap_or_default(),
        Err(ended) => return ended,
    };
    let signature = match beside(signature_path(folder, name), seen.signature, most) {
        Ok(signature) => signature,
        Err(ended) => return ended,
    };
    // The first may have changed while the others were read.
    if look(folder, name, bounds.is_signed()) != Ok(Some(*seen)) {
        return Read::Changed;
    }
    match String::from_utf8(text) {
        Ok(text) => Read::Done { bytes, text, signature },
        Err(_) => Read::Refused(Problem::bad_policy("the policy file is not UTF-8 text")),
    }
}

/// The bytes of one file, or none where it is not (or no longer) as it was seen.
fn read_one(path: &Path, seen: &Stamp, limit: ByteSize) -> io::Result<Option<Vec<u8>>> {
    // Not blocking: a pipe put in the file's place must not hang the scan.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut file: File = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let unchanged = |file: &File| Ok::<_, io::Error>(Stamp::of(&file.metadata()?) == *seen);
    if !unchanged(&file)? {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(ByteSize(seen.size).as_usize());
    (&mut file).take(limit.0 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 == seen.size && unchanged(&file)?).then_some(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::fs;

    use super::*;

    fn pair(folder: &Path, name: &str) -> Pair {
        *scan(folder, true).unwrap().plugins[name].as_ref().unwrap()
    }

    #[test]
    fn the_folder_is_read_by_its_names() {
        let dir = tempfile::tempdir().unwrap();
        for file in
            ["b.wasm", "a.wasm", "a.toml", ".hidden.wasm", "c d.wasm", "notes.txt", "lone.toml", "x.wasm.tmp"]
        {
            fs::write(dir.path().join(file), "x").unwrap();
        }
        fs::create_dir(dir.path().join("folder.wasm")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling.wasm")).unwrap();
        let found = scan(dir.path(), true).unwrap();
        assert_eq!(found.plugins.keys().collect::<Vec<_>>(), ["a", "b", "folder"]);
        assert!(found.plugins["folder"].as_ref().unwrap_err().contains("regular"));
        assert_eq!(found.misnamed.iter().collect::<Vec<_>>(), ["c d"]);
        assert!(found.policies.contains("lone") && found.policies.contains("a"));
        assert!(scan(&dir.path().join("none"), true).is_err());
    }

    #[test]
    fn a_pair_settles_once_nothing_changes() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.wasm"), "1").unwrap();
        let settle = Duration::from_secs(1);
        let start = Instant::now();
        let first = Seen::observe(None, pair(dir.path(), "a"), start, Duration::ZERO);
        assert_eq!(first.settled_at(settle), start + settle);
        let later = start + Duration::from_millis(900);
        let same = Seen::observe(Some(first), pair(dir.path(), "a"), later, Duration::ZERO);
        assert_eq!(same.settled_at(settle), start + settle, "the clock goes on");
        fs::write(dir.path().join("a.toml"), "").unwrap();
        let other = Seen::observe(Some(same), pair(dir.path(), "a"), later, Duration::ZERO);
        assert_eq!(other.settled_at(settle), later + settle, "a change of either starts it again");
        let old = Seen::observe(None, pair(dir.path(), "a"), later, Duration::from_secs(1));
        assert!(old.settled_at(settle) <= later);
    }

    #[test]
    fn a_pair_is_read_as_it_was_seen_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let bounds = CatalogConfig { max_component: ByteSize(8), ..CatalogConfig::default() };
        let at = |f: &str| dir.path().join(f);
        fs::write(at("a.wasm"), "bytes").unwrap();
        let seen = pair(dir.path(), "a");
        let Read::Done { bytes, text, .. } = read(dir.path(), "a", &seen, &bounds) else {
            panic!("must be read")
        };
        assert_eq!((bytes.as_slice(), text.as_str()), (&b"bytes"[..], ""));

        fs::write(at("a.toml"), "prefix = \"x\"").unwrap();
        assert!(matches!(read(dir.path(), "a", &seen, &bounds), Read::Changed), "a policy came");
        let seen = pair(dir.path(), "a");
        assert!(
            matches!(read(dir.path(), "a", &seen, &bounds), Read::Done { text, .. } if text.contains("prefix"))
        );

        fs::write(at("new"), "bytes").unwrap();
        fs::rename(at("new"), at("a.wasm")).unwrap();
        assert!(
            matches!(read(dir.path(), "a", &seen, &bounds), Read::Changed),
            "another file of the same size"
        );

        fs::write(at("a.wasm"), "much too long").unwrap();
        let seen = pair(dir.path(), "a");
        assert!(
            matches!(read(dir.path(), "a", &seen, &bounds), Read::Refused(p) if p.code == "plugin_too_large")
        );

        fs::write(at("a.wasm"), "bytes").unwrap();
        fs::write(at("a.toml"), [0xff]).unwrap();
        let seen = pair(dir.path(), "a");
        assert!(
            matches!(read(dir.path(), "a", &seen, &bounds), Read::Refused(p) if p.code == "plugin_bad_policy")
        );
    }
}
