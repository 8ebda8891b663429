//! Folders that a host of the benchmark serves from.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::plugins;

/// Limits of the host that no row is to meet: a row that queues, or promotes because the host is
/// full, would measure something else than it says.
const CONFIG: &str = r#"
[serve]
drain = "1s"
[host]
concurrency = 256
memory = "16GiB"
queue = 4096
"#;

/// The same for plugins. A call is a task after 100 ms where the row wants a task that works; the
/// others end, or ask, within a millisecond or so.
const POLICY: &str = r#"
[limits]
memory = "256MiB"
concurrency = 256
fuel = 1_000_000_000_000_000
active-time = "1h"
[grants]
ask = ["form"]
"#;

/// A tool of a guest whose calls are tasks soon.
const QUICK_TASKS: [(&str, &str); 2] = [("probe", "nap"), ("plain", "spin")];

/// Plugins, database, configuration and log of one host.
pub(super) struct Data {
    root: PathBuf,
    count: usize,
    /// Where its tasks are, if not in its own folder.
    database: Option<String>,
}

impl Data {
    /// An empty one in the new folder `name`.
    pub(super) fn new(folder: &Path, name: &str) -> Result<Self> {
        let data = Self { root: folder.join(name), count: 0, database: None };
        fs::create_dir_all(data.plugins()).with_context(|| format!("cannot make {}", data.root.display()))?;
        fs::write(data.config(), CONFIG)?;
        Ok(data)
    }

    /// With these guests, as they are.
    pub(super) fn with(folder: &Path, name: &str, guests: &[&str]) -> Result<Self> {
        let mut data = Self::new(folder, name)?;
        for guest in guests {
            data.add(guest, guest, false)?;
        }
        Ok(data)
    }

    /// Adds `guest` under the name `name`. A copy has a prefix for its tools, `NAME_`, and bytes of
    /// its own, so that it is compiled by itself.
    pub(super) fn add(&mut self, guest: &str, name: &str, copy: bool) -> Result<()> {
        let from = plugins::guests_dir().join(format!("{guest}.wasm"));
        let mut component = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        let mut policy = String::new();
        if copy {
            policy.push_str(&format!("prefix = \"{name}_\"\n"));
            component.extend_from_slice(&custom_section(name)?);
        }
        policy.push_str(POLICY);
        for (_, tool) in QUICK_TASKS.iter().filter(|(of, _)| *of == guest) {
            policy.push_str(&format!("[tools.{tool}.call]\ndeadline = \"100ms\"\n"));
        }
        self.put(name, &policy, &component)
    }

    /// Adds `guest` with these further limits and sections of its policy.
    pub(super) fn add_with(&mut self, guest: &str, limits: &str, sections: &str) -> Result<()> {
        let from = plugins::guests_dir().join(format!("{guest}.wasm"));
        let component = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        let policy = POLICY.replacen("[limits]\n", &format!("[limits]\n{limits}"), 1);
        self.put(guest, &format!("{policy}{sections}"), &component)
    }

    fn put(&mut self, name: &str, policy: &str, component: &[u8]) -> Result<()> {
        fs::write(self.plugins().join(format!("{name}.toml")), policy)?;
        fs::write(self.plugins().join(format!("{name}.wasm")), component)?;
        self.count += 1;
        Ok(())
    }

    /// Adds lines to the host's configuration, in sections that it does not have yet.
    pub(super) fn configure(&self, lines: &str) -> Result<()> {
        Ok(fs::write(self.config(), format!("{CONFIG}{lines}"))?)
    }

    /// Its tasks are in this database, given as a URL.
    pub(super) fn keep_in(&mut self, url: String) {
        self.database = Some(url);
    }

    pub(super) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The file that its tasks are in, where they are in its own folder.
    pub(super) fn file(&self) -> PathBuf {
        self.store().join("layby.db")
    }

    /// How many plugins it has.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }

    pub(super) fn store(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.root.join("layby.toml")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.root.join("host.log")
    }
}

/// A section of a component that means nothing: its id 0, its size, its name.
fn custom_section(name: &str) -> Result<Vec<u8>> {
    // Below 128 a length is one byte.
    let length = u8::try_from(name.len()).ok().filter(|length| *length < 127).context("a long name")?;
    Ok([&[0, length + 1, length], name.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn sections_have_a_size_and_a_name() {
        assert_eq!(custom_section("ab").unwrap(), [0, 3, 2, b'a', b'b']);
        assert!(custom_section(&"x".repeat(127)).is_err());
    }
}
