//! `layby-dev.toml`: how a plugin's project is built, for `layby dev`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::load::{ConfigError, Source};
use crate::base::{ByteSize, Millis};

/// A plugin's project, as its file describes it. Paths are relative to the file's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DevProject {
    /// Command and arguments, run in the project's folder.
    pub build: Vec<String>,
    /// The component that it makes; its stem is the plugin's name.
    pub component: PathBuf,
    /// The plugin's policy; none grants nothing.
    #[serde(default)]
    pub policy: Option<PathBuf>,
    /// Files and folders whose changes build again; the whole project where it is left out.
    #[serde(default = "DevProject::everything")]
    pub watch: Vec<PathBuf>,
    /// How long a build may take. 10 m: a first build downloads and compiles dependencies.
    #[serde(default = "DevProject::build_timeout")]
    pub build_timeout: Millis,
    /// How long files must be quiet before a build begins. 200 ms: editors write a file in several steps.
    #[serde(default = "DevProject::debounce")]
    pub debounce: Millis,
}

/// Fixed bounds of `layby dev`.
pub struct DevRules;

impl DevRules {
    /// The file's name.
    pub const FILE: &str = "layby-dev.toml";
    /// Largest project file: it is written by hand, in a few lines.
    pub const PROJECT: ByteSize = ByteSize::mib(1);
    /// How often the watched files are looked at where the system tells of no change.
    pub const POLL: Millis = Millis::from_secs(1);
    /// Longest wait for files that never come to rest.
    pub const DEBOUNCE_MOST: Millis = Millis::from_secs(2);
    /// Files that are watched at most: more are a folder of dependencies that should not be.
    pub const FILES: usize = 20_000;
    /// Depth of folders that are watched.
    pub const DEPTH: usize = 32;
    /// Bytes of a file that counts as changed where its contents differ; larger ones do by their times. 8 MiB: what is
    /// written by hand, and most data that is compiled in.
    pub const HASHED: u64 = 8 << 20;
    /// Bytes that one look at the watched files reads at most. 128 MiB: a fraction of a second.
    pub const HASHED_ALL: u64 = 128 << 20;
    /// Bytes of one line of a build's output; longer ones are cut into several.
    pub const LINE: usize = 8 << 10;
    /// How long a build may take to end after SIGTERM, before SIGKILL. 1.5 s: the end of the command waits for it.
    pub const BUILD_GRACE: Millis = Millis(1500);
    /// How long what a build's command has left running may go on, and its output stay open: time for last words.
    pub const OUTPUT_GRACE: Millis = Millis(500);
    /// How often it is looked whether something is left.
    pub const LEFT_POLL: Millis = Millis(20);
    /// Builds in a row during which the same watched file changes, before the next one waits: it may be the build
    /// that writes it. An author rarely changes one file during three builds.
    pub const OWN_CHANGES: u32 = 3;
    /// The same where each of these builds has another file change, such as a file with the time in its name. 10: an
    /// author who writes faster than the build takes does that, too.
    pub const OTHER_CHANGES: u32 = 10;
    /// The first pause before a build that may be due to another build; each one is twice as long as the one before.
    pub const PAUSE_FIRST: Millis = Millis::from_secs(2);
    /// The longest pause: no change waits longer for its build, whoever made it. 10 s: an author who wrote it has not
    /// given up by then.
    pub const PAUSE_MOST: Millis = Millis::from_secs(10);
    /// How long the end waits for calls in flight, at most: an author at the terminal does not wait 10 s.
    pub const DRAIN: Millis = Millis(1500);
    /// How long the end may take in all before what still runs is dropped.
    pub const END: Millis = Millis(2500);
    /// How long the end waits for the last lines to be read.
    pub const LAST_LINES: Millis = Millis(300);
    /// Bytes of output that wait for their reader. 4 MiB; lines beyond it are lost, and counted.
    pub const UNREAD: usize = 4 << 20;
    /// Bytes that wait before a build's output waits, too, and with it the build, as in any pipe. 256 KiB.
    pub const UNREAD_OUTPUT: usize = 256 << 10;
    /// Between two attempts to write to a stream that takes nothing now and blocks nobody.
    pub const UNREAD_PAUSE: Millis = Millis(10);
    /// How long component and policy must be at rest in the private plugin folder, where both are
    /// renamed into place.
    pub const SETTLE: Millis = Millis(100);
    /// Names of folders that are not watched: what builds, package managers and editors write.
    pub const IGNORED: [&str; 6] = ["target", "node_modules", "build", "dist", "__pycache__", "venv"];
    /// How the names of files end that are not watched either: copies of editors, and logs.
    pub const IGNORED_ENDS: [&str; 2] = ["~", ".log"];
}

impl DevProject {
    fn everything() -> Vec<PathBuf> {
        vec![".".into()]
    }

    fn build_timeout() -> Millis {
        Millis::from_secs(600)
    }

    fn debounce() -> Millis {
        Millis(200)
    }

    /// From the text of the file `origin`.
    ///
    /// # Errors
    /// Not TOML, an unknown key, a bad value.
    pub fn parse(text: &str, origin: &Path) -> Result<Self, ConfigError> {
        let source = Source { text, origin };
        let project: Self = source.parse()?;
        let wrong = |key: &str, why: &str| Err(source.wrong(&[key.to_owned()], format!("`{key}` {why}")));
        if project.build.first().is_none_or(String::is_empty) {
            return wrong("build", "is empty: write a command and its arguments, such as [\"make\"]");
        }
        if project.build.iter().any(|part| part.contains('\0')) {
            return wrong("build", "holds a NUL");
        }
        if project.component.extension().is_none_or(|e| e != "wasm") {
            return wrong("component", "must name a file that ends in .wasm: what the build makes");
        }
        // The stem names a folder of the plugin's own, which is emptied of all else.
        if project.component.file_stem().is_none_or(|stem| stem.to_string_lossy().starts_with('.')) {
            return wrong("component", "must name a file whose name does not begin with a dot");
        }
        if project.policy.as_ref().is_some_and(|p| p.as_os_str().is_empty()) {
            return wrong("policy", "is empty: name the policy file, or leave the line out");
        }
        if project.watch.is_empty() {
            return wrong("watch", "is empty: name files and folders, or leave the line out to watch all");
        }
        if project.build_timeout == Millis(0) {
            return wrong("build-timeout", "must be more than 0");
        }
        if project.debounce > DevRules::DEBOUNCE_MOST {
            let most = format!("must be at most {}", DevRules::DEBOUNCE_MOST);
            return wrong("debounce", &most);
        }
        Ok(project)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<DevProject, String> {
        DevProject::parse(text, Path::new("layby-dev.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let project = parse("build = [\"make\"]\ncomponent = \"build/a.wasm\"").unwrap();
        assert_eq!((project.watch, project.policy), (vec![PathBuf::from(".")], None));
        assert_eq!((project.build_timeout, project.debounce), (Millis::from_secs(600), Millis(200)));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let has = |text: &str, part: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        has("build = [\"make\"]", "missing field `component`");
        has("build = [\"make\"]\ncomponents = \"a.wasm\"", "nearest known key is `component`");
        has("build = []\ncomponent = \"a.wasm\"", "layby-dev.toml:1:1");
        has("build = [\"make\"]\ncomponent = \"a.so\"", "must name a file that ends in .wasm");
        has("build = [\"make\"]\ncomponent = \"build/...wasm\"", "does not begin with a dot");
        has("build = [\"make\"]\ncomponent = \"a.wasm\"\nwatch = []", "layby-dev.toml:3:1");
        has("build = [\"make\"]\ncomponent = \"a.wasm\"\ndebounce = \"1m\"", "at most 2s");
        has("build = \"make\"\ncomponent = \"a.wasm\"", "layby-dev.toml:1:9");
    }
}
