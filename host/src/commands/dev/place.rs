//! From the project into the private plugin folder: component and policy, each by a rename.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::project::Project;
use crate::{
    base::{ByteSize, read_file, text_of},
    commands::exit::{Exit, Failure},
    config::CatalogConfig,
    plugins::{component_path, policy_path},
};

/// The folder that the private host serves.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// What the host reads at most.
    max_component: ByteSize,
    max_policy: ByteSize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Bytes of the component.
    pub(super) size: u64,
    /// Neither component nor policy differs from what lay there.
    pub(super) same: bool,
}

impl Folder {
    /// Makes `path`, and removes what is not the plugin `name`. `bounds` are those of the host that serves it.
    ///
    /// # Errors
    /// It cannot be made or read.
    pub(super) fn open(path: PathBuf, name: &str, bounds: &CatalogConfig) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        let this = Self { path, max_component: bounds.max_component, max_policy: bounds.max_policy };
        this.keep(name)?;
        Ok(this)
    }

    /// Removes what is not the plugin `name`.
    fn keep(&self, name: &str) -> io::Result<()> {
        let own = [self.component(name), self.policy(name)];
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if !own.contains(&path) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn component(&self, name: &str) -> PathBuf {
        component_path(&self.path, name)
    }

    /// Where the policy of `name` lies here.
    pub(super) fn policy(&self, name: &str) -> PathBuf {
        policy_path(&self.path, name)
    }

    /// Puts the project's component and policy here, and removes what is not they.
    ///
    /// # Errors
    /// `component_missing`, `policy_missing`, or they cannot be copied.
    pub(super) fn put(&self, project: &Project) -> Result<Placed, Failure> {
        let shown = project.shown(&project.component);
        let component = read_file(&project.component, self.max_component).map_err(|e| {
            let text = format!(
                "the build ended well, but {shown} cannot be read: {e}. Correct `component`, or the build"
            );
            Failure::new(Exit::Failed, "component_missing", text)
        })?;
        let policy = policy(project, self.max_policy)?;
        // Not before there is something in its place, where the project's plugin has another name now.
        self.keep(&project.name)?;
        // The policy first: a new component may need it.
        let kept = self.place_policy(project, policy)?;
        let size = component.len() as u64;
        let same = same(&self.component(&project.name), &component)? && kept;
        Ok(Placed { size, same })
    }

    /// Puts the project's policy alone here, beside the component that lies here; false where there is none.
    ///
    /// # Errors
    /// `policy_missing`, or it cannot be copied.
    pub(super) fn put_policy(&self, project: &Project) -> Result<bool, Failure> {
        let policy = policy(project, self.max_policy)?;
        let placed = self.component(&project.name).exists();
        if placed {
            self.place_policy(project, policy)?;
        }
        Ok(placed)
    }

    /// True where it lay here already.
    fn place_policy(&self, project: &Project, policy: Option<String>) -> io::Result<bool> {
        let base = project.policy.as_deref().and_then(Path::parent).unwrap_or(&project.folder);
        let path = self.policy(&project.name);
        match policy {
            Some(text) => same(&path, rebased(&text, base).as_bytes()),
            None => match fs::remove_file(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
                removed => removed.map(|()| false),
            },
        }
    }
}

/// The text of the project's policy, where it has one.
fn policy(project: &Project, most: ByteSize) -> Result<Option<String>, Failure> {
    let Some(path) = &project.policy else { return Ok(None) };
    read_file(path, most).and_then(text_of).map(Some).map_err(|e| {
        let text = format!(
            "the policy {} cannot be read: {e}. Write it, or leave `policy` out",
            project.shown(path)
        );
        Failure::new(Exit::Failed, "policy_missing", text)
    })
}

/// Makes `path` hold `bytes`; true where it did already.
fn same(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(true);
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)?;
    Ok(false)
}

/// The policy `text` with the folders of `grants.files` from `base`, where it was written: relative paths begin at
/// the policy's own folder, and it is about to lie in another one. Lines stay where they are; a text that
/// is no policy is left alone, for the host to say what is wrong.
fn rebased(text: &str, base: &Path) -> String {
    let Ok(root) = DeTable::parse(text) else { return text.to_owned() };
    let Some(DeValue::Table(grants)) = value(root.get_ref(), "grants") else { return text.to_owned() };
    let Some(DeValue::Array(files)) = value(grants, "files") else { return text.to_owned() };
    let host = |file: &DeValue<'_>| match file {
        DeValue::Table(file) => file.iter().find_map(|(key, value)| {
            let host = value.get_ref().as_str().filter(|_| key.get_ref() == "host")?;
            Path::new(host).is_relative().then(|| (value.span(), base.join(host)))
        }),
        _ => None,
    };
    let mut places: Vec<_> = files.iter().filter_map(|file| host(file.get_ref())).collect();
    places.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    for (span, path) in places {
        text.replace_range(span, &toml::Value::from(path.to_string_lossy().into_owned()).to_string());
    }
    text
}

fn value<'a, 'b>(table: &'a DeTable<'b>, key: &str) -> Option<&'a DeValue<'b>> {
    table.iter().find_map(|(k, value)| (k.get_ref() == key).then_some(value.get_ref()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn granted_folders_are_those_of_the_project() {
        let text = "prefix = \"a\"\n[grants]\nfiles = [{ host = './in', guest = \"/in\" },\n { guest = \"/o\", host = \"/out\" }]\n";
        let new = rebased(text, Path::new("/p q"));
        assert!(new.contains("\"/p q/./in\"") && new.contains("\"/out\""), "{new}");
        assert_eq!(new.lines().count(), text.lines().count());
        let tables = "[[grants.files]]\nhost = \"x\"\nguest = \"/x\"";
        assert!(rebased(tables, Path::new("/p")).contains("host = \"/p/x\""));
        for other in ["", "not toml [", "grants = 5", "[grants]\nfiles = [1, { host = 2 }]"] {
            assert_eq!(rebased(other, Path::new("/p")), other);
        }
    }
}
