//! Which replica this is: its data folder has the name.

use std::{fs, io, path::Path};

use uuid::Uuid;

use super::StoreError;

/// The file in the data folder.
const FILE: &str = "replica";

/// The name of the replica whose data folder this is, made now where it has none. A folder that does not exist, as of a
/// command that only looks into the database, has one for this time only.
///
/// # Errors
/// The file cannot be read or made, or holds no name.
pub(super) fn name(data: &Path) -> Result<Uuid, StoreError> {
    let file = data.join(FILE);
    let failed = |e: io::Error| StoreError::Other(format!("the replica's name in {}: {e}", file.display()));
    match fs::read_to_string(&file) {
        Ok(text) => return text.trim().parse().map_err(|e| failed(io::Error::other(e))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(failed(e)),
    }
    let fresh = Uuid::new_v4();
    if !data.is_dir() {
        return Ok(fresh);
    }
    // Whole or not at all, and of two processes that do this at once the first one's.
    let temporary = data.join(format!(".{FILE}.{fresh}"));
    fs::write(&temporary, fresh.to_string()).map_err(failed)?;
    let linked = fs::hard_link(&temporary, &file);
    fs::remove_file(&temporary).map_err(failed)?;
    match linked {
        Ok(()) => Ok(fresh),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => name(data),
        Err(e) => Err(failed(e)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn a_data_folder_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let first = name(dir.path()).unwrap();
        assert_eq!(name(dir.path()).unwrap(), first);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
        let missing = dir.path().join("missing");
        assert_ne!(name(&missing).unwrap(), first);
        assert!(!missing.exists());
        fs::write(dir.path().join(FILE), "x").unwrap();
        assert!(name(dir.path()).is_err());
    }
}
