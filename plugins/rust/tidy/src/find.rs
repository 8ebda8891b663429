//! Which files are equal: of one size, then of one SHA-256.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use layby_plugin::prelude::*;
use sha2::{Digest, Sha256};

/// Files looked at; a larger folder is refused with a clear word, before memory runs out.
const FILES: usize = 100_000;
/// Files and folders that could not be read and are named.
const UNREADABLE_SHOWN: usize = 20;
/// How much is read between two looks at cancellation.
const CHUNK: usize = 256 * 1024;

/// SHA-256.
pub(crate) type Hash = [u8; 32];

/// Files of equal contents.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Group {
    /// Their size in bytes.
    pub(crate) size: u64,
    /// SHA-256 of their contents, in hexadecimal.
    pub(crate) sha256: String,
    /// Their paths inside the granted folder, sorted.
    pub(crate) paths: Vec<String>,
    #[serde(skip)]
    pub(crate) hash: Hash,
    /// When each was changed, in nanoseconds since 1970, in the order of `paths`.
    #[serde(skip)]
    pub(crate) modified: Vec<u128>,
}

impl Group {
    pub(crate) fn surplus_bytes(&self) -> u64 {
        self.size * (self.paths.len() as u64 - 1)
    }
}

/// What a look at a folder gave.
pub(crate) struct Scan {
    pub(crate) root: PathBuf,
    pub(crate) files: usize,
    /// Bytes that were compared, which is how far progress has come.
    pub(crate) compared: u64,
    pub(crate) groups: Vec<Group>,
    pub(crate) unreadable: Vec<String>,
}

impl Scan {
    pub(crate) fn surplus_bytes(&self) -> u64 {
        self.groups.iter().map(Group::surplus_bytes).sum()
    }

    pub(crate) fn surplus_files(&self) -> usize {
        self.groups.iter().map(|group| group.paths.len() - 1).sum()
    }

    pub(crate) fn summary(&self) -> String {
        if self.groups.is_empty() {
            return format!("No duplicates among {}.", files(self.files));
        }
        let mut text = format!(
            "Surplus: {} of {} ({} bytes).\n",
            self.surplus_files(),
            files(self.files),
            self.surplus_bytes()
        );
        list(&self.groups, &mut text, 50);
        text
    }
}

/// Lists groups, a line each, and says how many it left out.
pub(crate) fn list(groups: &[Group], text: &mut String, lines: usize) {
    for group in groups.iter().take(lines) {
        let more = group.paths.len().saturating_sub(6);
        let shown: Vec<_> = group.paths.iter().take(6).map(|path| shown(path)).collect();
        text.push_str(&format!("- {} ({} bytes each)", shown.join(" = "), group.size));
        if more > 0 {
            text.push_str(&format!(", and {more} more copies"));
        }
        text.push('\n');
    }
    if groups.len() > lines {
        text.push_str(&format!("- and {} more groups\n", groups.len() - lines));
    }
}

/// A number of files, in words.
pub(crate) fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// A path for people to read: a name with a line break in it cannot pose as another line.
pub(crate) fn shown(path: &str) -> String {
    path.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// A file as the walk met it.
struct Met {
    path: String,
    modified: u128,
}

/// Looks for equal files under `root`, and reports progress by the bytes it has to compare.
pub(crate) fn scan(root: &Path, min_size: u64, call: &Call) -> Result<Scan> {
    let mut unreadable = Vec::new();
    let mut by_size: BTreeMap<u64, Vec<Met>> = BTreeMap::new();
    let files = walk(root, min_size.max(1), &mut by_size, &mut unreadable, call)?;
    by_size.retain(|_, met| met.len() > 1);
    let total: u64 = by_size.iter().map(|(size, met)| size * met.len() as u64).sum();
    let mut done = 0;
    let mut groups = Vec::new();
    for (size, met) in by_size {
        let mut by_hash: BTreeMap<Hash, Vec<Met>> = BTreeMap::new();
        for met in met {
            call.check()?;
            match hash(&root.join(&met.path), call) {
                Ok((_, hash)) => by_hash.entry(hash).or_default().push(met),
                Err(error) => note(&mut unreadable, &met.path, error)?,
            }
            done += size;
            call.progress(done as f64, total as f64, "comparing contents");
        }
        groups.extend(
            by_hash.into_iter().filter(|(_, met)| met.len() > 1).map(|(hash, met)| group(size, hash, met)),
        );
    }
    groups.sort_by(|a, b| b.surplus_bytes().cmp(&a.surplus_bytes()).then_with(|| a.paths.cmp(&b.paths)));
    Ok(Scan { root: root.to_owned(), files, compared: done, groups, unreadable })
}

fn group(size: u64, hash: Hash, mut met: Vec<Met>) -> Group {
    met.sort_by(|a, b| a.path.cmp(&b.path));
    let modified = met.iter().map(|m| m.modified).collect();
    let sha256 = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Group { size, sha256, paths: met.into_iter().map(|m| m.path).collect(), hash, modified }
}

/// Notes what could not be read; a cancellation goes on up.
fn note(unreadable: &mut Vec<String>, path: &str, error: Error) -> Result<()> {
    let Error::Failed(result) = error else { return Err(error) };
    if unreadable.len() < UNREADABLE_SHOWN {
        let why = result.content.into_iter().find_map(|content| match content {
            layby_plugin::types::Content::Text(text) => Some(text),
            _ => None,
        });
        unreadable.push(format!("{path}: {}", why.unwrap_or_default()));
    }
    Ok(())
}

/// Meets every regular file under `root`, without recursion and without following links.
fn walk(
    root: &Path,
    min_size: u64,
    by_size: &mut BTreeMap<u64, Vec<Met>>,
    unreadable: &mut Vec<String>,
    call: &Call,
) -> Result<usize> {
    let mut files = 0;
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        call.check()?;
        let entries = match fs::read_dir(root.join(&folder)) {
            Ok(entries) => entries,
            Err(error) if folder.is_empty() => {
                return Err(Error::failed(format!("cannot list the folder: {error}")));
            }
            Err(error) => {
                note(unreadable, &folder, error.into())?;
                continue;
            }
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            // A name that is no text could be met but not shown; it is left alone.
            let Some(name) = name.to_str() else { continue };
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                files += 1;
                if files > FILES {
                    return Err(Error::failed(format!("more than {FILES} files: give a smaller `path`")));
                }
                let Ok(metadata) = fs::symlink_metadata(root.join(&path)) else { continue };
                if metadata.len() >= min_size {
                    let modified = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
                    let modified = modified.unwrap_or_default().as_nanos();
                    by_size.entry(metadata.len()).or_default().push(Met { path, modified });
                }
            }
        }
    }
    Ok(files)
}

/// Length and hash of a file's contents.
pub(crate) fn hash(path: &Path, call: &Call) -> Result<(u64, Hash)> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut length = 0;
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok((length, hasher.finalize().into()));
        }
        hasher.update(&chunk[..read]);
        length += read as u64;
        call.check()?;
    }
}
