//! A policy's grants, checked once per plugin version.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use crate::{
    capabilities::http::Rule,
    config::{EnvValue, FileGrant, Grants, HttpGrant},
};

/// A policy's grants, resolved once per plugin version.
#[derive(Clone, Debug, Default)]
pub struct Granted {
    /// As the policy has them.
    pub grants: Grants,
    /// Those of HTTP, read.
    pub(in crate::capabilities) http: Vec<Rule>,
    /// The folders are not this machine's: what was read of them is in the journal or not at all.
    elsewhere: bool,
}

/// A file or folder, whatever name it is reached by.
type Identity = (u64, u64);

impl Granted {
    /// Resolves `grants`: opens nothing yet, but checks that every folder is there, is a folder, and
    /// neither contains, equals nor lies inside one of `forbidden` (by device and inode).
    ///
    /// # Errors
    /// The grant that cannot be given, and why.
    pub fn resolve(grants: &Grants, forbidden: &[PathBuf]) -> Result<Arc<Self>, String> {
        for (name, value) in &grants.env {
            check_env(name, value)?;
        }
        for (n, grant) in grants.files.iter().enumerate() {
            let refuse = |why: String| format!("grants.files: {:?}: {why}", grant.host.display().to_string());
            check_guest(grant).map_err(refuse)?;
            if grants.files[..n].iter().any(|g| g.guest == grant.guest) {
                return Err(refuse(format!("the guest path {:?} is granted twice", grant.guest)));
            }
            check_root(&grant.host, forbidden).map_err(refuse)?;
        }
        Self::of(grants)
    }

    /// The same for grants that were given before: what they name on this machine is not looked at.
    ///
    /// # Errors
    /// As [`Granted::resolve`].
    pub fn of(grants: &Grants) -> Result<Arc<Self>, String> {
        let read = |grant: &HttpGrant| {
            let rule = Rule::parse(&grant.allow, grant.idempotent);
            rule.map_err(|why| format!("grants.http: {:?}: {why}", grant.allow))
        };
        let http = grants.http.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { grants: grants.clone(), http, elsewhere: false }))
    }

    /// The same where a journal is shown, perhaps on another machine: no folder is opened.
    ///
    /// # Errors
    /// As [`Granted::resolve`].
    pub fn elsewhere(grants: &Grants) -> Result<Arc<Self>, String> {
        let mut granted = Arc::unwrap_or_clone(Self::of(grants)?);
        granted.elsewhere = true;
        Ok(Arc::new(granted))
    }

    /// True where the folder of `began`, which a run began with, is granted still, and to be changed if it `writes`.
    pub(super) fn gives(&self, began: &FileGrant, writes: bool) -> bool {
        let same = |now: &&FileGrant| now.host == began.host && now.guest == began.guest;
        self.grants.files.iter().filter(same).any(|now| began.write && now.write || !writes)
    }

    pub(super) const fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    /// True where a run may block its thread on files, so that it must not start on a thread that answers HTTP.
    pub fn may_block(&self) -> bool {
        !self.grants.files.is_empty()
    }
}

fn check_env(name: &str, value: &EnvValue) -> Result<(), String> {
    let text = match value {
        EnvValue::Plain(text) | EnvValue::Secret { secret: text } => text,
        EnvValue::SecretFile { .. } => "",
    };
    if name.is_empty() || name.contains(['=', '\0']) || text.contains('\0') {
        return Err(format!(
            "grants.env: {name:?}: a variable's name has no `=`, and neither name nor value a NUL"
        ));
    }
    Ok(())
}

fn check_guest(grant: &FileGrant) -> Result<(), String> {
    let path = Path::new(&grant.guest);
    let plain = path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !plain || grant.guest.contains('\0') {
        return Err(format!("the guest path {:?} must be absolute, without `..`", grant.guest));
    }
    Ok(())
}

fn check_root(host: &Path, forbidden: &[PathBuf]) -> Result<(), String> {
    let root = fs::canonicalize(host).map_err(|e| format!("the folder cannot be found: {e}"))?;
    if !fs::metadata(&root).map_err(|e| e.to_string())?.is_dir() {
        return Err("it is not a folder".into());
    }
    let above_root = lineage(&root).map_err(|e| format!("its parents cannot be read: {e}"))?;
    for path in forbidden {
        let above =
            lineage(&existing(path)).map_err(|e| format!("the host's own folders cannot be read: {e}"))?;
        // `lineage` begins with the path itself, and has at least that.
        if above.contains(&above_root[0]) {
            return Err(
                "it is or contains a folder of the host itself (data, plugins, configuration or keys)".into(),
            );
        }
        if path.exists() && above_root.contains(&above[0]) {
            return Err(
                "it lies inside a folder of the host itself (data, plugins, configuration or keys)".into()
            );
        }
    }
    Ok(())
}

/// `path` without links, or the nearest folder above it that is there.
fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().find_map(|p| fs::canonicalize(p).ok()).unwrap_or_else(|| "/".into())
}

/// What `path` is, and all folders above it.
fn lineage(path: &Path) -> io::Result<Vec<Identity>> {
    path.ancestors().map(|p| fs::metadata(p).map(|m| (m.dev(), m.ino()))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn resolve(host: &Path, guest: &str, forbidden: &[PathBuf]) -> Result<Arc<Granted>, String> {
        let files = vec![FileGrant { host: host.into(), guest: guest.into(), write: false }];
        Granted::resolve(&Grants { files, ..Grants::default() }, forbidden)
    }

    #[test]
    fn the_hosts_own_folders_are_never_granted() {
        let dir = tempfile::tempdir().unwrap();
        let make = |p: &str| {
            let path = dir.path().join(p);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let (data, inside, beside) = (make("a/data"), make("a/data/x"), make("a/beside"));
        let own = [data.clone(), dir.path().join("a/later/policy.toml")];
        assert!(resolve(&beside, "/in", &own).is_ok());
        for host in [&data, &inside, &dir.path().join("a"), dir.path(), Path::new("/")] {
            let refused = resolve(host, "/in", &own).unwrap_err();
            assert!(refused.contains("of the host itself"), "{refused}");
        }
        let link = dir.path().join("a/beside/link");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        assert!(resolve(&link, "/in", &own).is_err());
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(resolve(&dir.path().join("file"), "/in", &[]).unwrap_err().contains("not a folder"));
        assert!(resolve(&dir.path().join("none"), "/in", &[]).unwrap_err().contains("cannot be found"));
    }

    #[test]
    fn guest_paths_and_variables_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        for guest in ["in", "", "/a/../b"] {
            assert!(resolve(dir.path(), guest, &[]).is_err(), "{guest}");
        }
        let twice = FileGrant { host: dir.path().into(), guest: "/in".into(), write: true };
        let grants = Grants { files: vec![twice.clone(), twice], ..Grants::default() };
        assert!(Granted::resolve(&grants, &[]).unwrap_err().contains("twice"));
        let env = [("A=B".to_owned(), EnvValue::Plain("x".into()))].into();
        assert!(Granted::resolve(&Grants { env, ..Grants::default() }, &[]).is_err());
    }
}
