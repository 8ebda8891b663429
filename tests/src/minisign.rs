//! Keys and signatures by the `minisign` command.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// A signer's pair of keys.
pub struct Signer {
    folder: TempDir,
}

impl Signer {
    /// Makes one.
    ///
    /// # Panics
    /// Without `minisign`.
    pub fn new() -> Self {
        let signer = Self { folder: TempDir::with_prefix("layby-minisign-").expect("a temporary folder") };
        signer.run(&["-G", "-W", "-p", "key.pub", "-s", "key.sec"]);
        signer
    }

    /// The public key, as a configuration has it.
    ///
    /// # Panics
    /// Without its file.
    pub fn key(&self) -> String {
        let file = fs::read_to_string(self.path("key.pub")).expect("a public key");
        file.lines().nth(1).expect("its second line").to_owned()
    }

    /// The key's id, as minisign says it.
    ///
    /// # Panics
    /// Without its file.
    pub fn id(&self) -> String {
        let file = fs::read_to_string(self.path("key.pub")).expect("a public key");
        file.lines().next().and_then(|line| line.split(' ').next_back()).expect("its first line").to_owned()
    }

    /// The text of a signature of `bytes`.
    ///
    /// # Panics
    /// Without `minisign`.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.sign_by(bytes, &["-t", "a test's plugin"])
    }

    /// The same with more options of the command.
    ///
    /// # Panics
    /// Without `minisign`.
    pub fn sign_by(&self, bytes: &[u8], options: &[&str]) -> Vec<u8> {
        fs::write(self.path("file"), bytes).expect("a file");
        self.run(&[&["-S", "-W", "-s", "key.sec", "-m", "file", "-x", "file.minisig"], options].concat());
        fs::read(self.path("file.minisig")).expect("a signature")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, args: &[&str]) {
        let mut command = Command::new("minisign");
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.status().expect("minisign is there: `cargo xtask test` installs it");
        assert!(status.success(), "minisign {args:?}: {status}");
    }
}

impl Default for Signer {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the signature of the plugin `name` belongs in `folder`.
pub fn signature_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.wasm.minisig"))
}
