//! A policy's grants, checked once per plugin version.

use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use super::root;
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
    /// What this host itself lives by: no folder may have to do with it.
    own: Arc<[PathBuf]>,
}

impl Granted {
    /// Resolves `grants`: opens nothing yet, but checks that every folder is there, is a folder, and
    /// neither contains, equals nor lies inside one of `own` (by device and inode), nor shows it by a mount.
    ///
    /// # Errors
    /// The grant that cannot be given, and why.
    pub fn resolve(grants: &Grants, own: &[PathBuf]) -> Result<Arc<Self>, String> {
        for (name, value) in &grants.env {
            check_env(name, value)?;
        }
        grants.files.iter().filter(|grant| grant.write).for_each(|grant| root::is_written(&grant.host, own));
        for (n, grant) in grants.files.iter().enumerate() {
            let refuse = |why: String| format!("grants.files: {:?}: {why}", grant.host.display().to_string());
            check_guest(grant).map_err(refuse)?;
            if grants.files[..n].iter().any(|g| g.guest == grant.guest) {
                return Err(refuse(format!("the guest path {:?} is granted twice", grant.guest)));
            }
            root::open(&grant.host, own).map_err(refuse)?;
        }
        let mut granted = Arc::unwrap_or_clone(Self::of(grants)?);
        granted.own = own.into();
        Ok(Arc::new(granted))
    }

    /// The same for grants that were given before: what they name on this machine is not looked at.
    ///
    /// # Errors
    /// As [`Granted::resolve`].
    pub fn of(grants: &Grants) -> Result<Arc<Self>, String> {
        let read = |grant: &HttpGrant| {
            let rule = Rule::parse(&grant.allow, grant.idempotent);
            let rule = rule.and_then(|rule| rule.within(&grant.networks));
            rule.map_err(|why| format!("grants.http: {:?}: {why}", grant.allow))
        };
        let http = grants.http.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { grants: grants.clone(), http, elsewhere: false, own: Arc::default() }))
    }

    /// The same where what this host lives by is `own`.
    ///
    /// # Errors
    /// As [`Granted::resolve`].
    pub fn beside(grants: &Grants, own: &[PathBuf]) -> Result<Arc<Self>, String> {
        let mut granted = Arc::unwrap_or_clone(Self::of(grants)?);
        granted.own = own.into();
        Ok(Arc::new(granted))
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

    /// What this host itself lives by.
    pub(super) fn own(&self) -> Arc<[PathBuf]> {
        self.own.clone()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

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
