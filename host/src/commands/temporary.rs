//! A private host's own folder, for as long as it runs.

use std::{
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use super::exit::Failure;

/// A folder that goes when its owner goes.
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// Makes one that only this user can enter; its name begins with `prefix`.
    ///
    /// # Errors
    /// `temporary_folder`.
    pub(crate) fn new(prefix: &str) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("{prefix}-{}", uuid::Uuid::new_v4()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|e| {
            Failure::unreachable("temporary_folder", format!("{}: cannot be made: {e}", path.display()))
        })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The system's own cleaning takes what is left.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
