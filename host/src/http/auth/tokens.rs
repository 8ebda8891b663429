//! Static bearer tokens: those of the configuration, and those of a file that may change.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use crate::{
    base::{Digest, Stamp, UnixMillis, read_file, stamp, text_of},
    config::{AuthConfig, TokenEntry, TokenFile},
};

/// Entries by the hash of their token.
type Entries = HashMap<Digest, TokenEntry>;

/// All static tokens.
pub(super) struct Tokens {
    fixed: Entries,
    file: Option<Watched>,
}

/// What a credential is among the static tokens.
pub(super) enum Found {
    /// Of this principal, with these scopes.
    Known(TokenEntry),
    /// It was one.
    Expired,
    /// It is none.
    Unknown,
}

impl Tokens {
    /// Reads the tokens.
    ///
    /// # Errors
    /// The file cannot be read, or is no file of tokens.
    pub(super) fn open(config: &AuthConfig) -> anyhow::Result<Self> {
        let lines = config.tokens.iter().map(|line| TokenEntry::from_line(line).map_err(anyhow::Error::msg));
        let fixed = by_hash(lines.collect::<Result<_, _>>()?);
        let path = &config.tokens_file;
        let file = (!path.as_os_str().is_empty()).then(|| Watched::open(path)).transpose()?;
        Ok(Self { fixed, file })
    }

    /// What `token` is at `now`. The hash is looked up, not the token: nothing can be learned from how long it takes.
    pub(super) fn find(&self, token: &str, now: UnixMillis) -> Found {
        let hash = Digest::of(token.as_bytes());
        let read = self.file.as_ref().map(Watched::entries);
        let entry = self.fixed.get(&hash).or_else(|| read.as_ref()?.get(&hash));
        match entry {
            Some(entry) if entry.ends().is_some_and(|end| end <= now) => Found::Expired,
            Some(entry) => Found::Known(entry.clone()),
            None => Found::Unknown,
        }
    }
}

fn by_hash(entries: Vec<TokenEntry>) -> Entries {
    entries.into_iter().map(|entry| (entry.sha256, entry)).collect()
}

/// A file that is read again when it has changed.
struct Watched {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    stamp: Option<Stamp>,
    entries: Arc<Entries>,
}

impl Watched {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let stamp = stamp(path);
        let entries = Arc::new(read(path)?);
        let state = State { looked: Instant::now(), stamp, entries };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// What the file has, as of a second ago at most.
    fn entries(&self) -> Arc<Entries> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() < AuthConfig::LOOK.duration() {
            return state.entries.clone();
        }
        state.looked = Instant::now();
        let now = stamp(&self.path);
        if now != state.stamp {
            match read(&self.path) {
                Ok(entries) => {
                    tracing::info!(tokens = entries.len(), "the file of tokens was read again");
                    (state.stamp, state.entries) = (now, Arc::new(entries));
                }
                // Who deletes it takes every token back.
                Err(e) if now.is_none() => {
                    tracing::error!("the file of tokens is gone, and its tokens with it: {e:#}");
                    (state.stamp, state.entries) = (now, Arc::default());
                }
                Err(e) => {
                    tracing::error!(
                        "the file of tokens cannot be used, the tokens read before count on: {e:#}"
                    );
                    state.stamp = now;
                }
            }
        }
        state.entries.clone()
    }
}

fn read(path: &Path) -> anyhow::Result<Entries> {
    let text = read_file(path, AuthConfig::FILE).and_then(text_of);
    let text =
        text.map_err(|e| anyhow::anyhow!("{} (auth.tokens-file) cannot be read: {e}", path.display()))?;
    Ok(by_hash(TokenFile::parse(&text, path)?.tokens))
}
