//! A plugin's project: its file, its paths, and what to write where there is no file.

use std::path::{Path, PathBuf};

use crate::{
    base::{read_file, text_of},
    commands::exit::Failure,
    config::{DevProject, DevRules},
};

/// A project in its folder. All paths are absolute.
#[derive(Clone, Debug)]
pub(super) struct Project {
    pub(super) folder: PathBuf,
    pub(super) file: DevProject,
    /// The component's stem.
    pub(super) name: String,
    pub(super) component: PathBuf,
    pub(super) policy: Option<PathBuf>,
    pub(super) watch: Vec<PathBuf>,
}

/// The project's file in `folder`.
pub(super) fn file(folder: &Path) -> PathBuf {
    folder.join(DevRules::FILE)
}

impl Project {
    /// Reads the project of `folder`.
    ///
    /// # Errors
    /// `dev_project_missing`, `config_invalid`.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let path = file(folder);
        let text = match read_file(&path, DevRules::PROJECT).and_then(text_of) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(missing(folder)),
            Err(e) => {
                let text = format!("{}: cannot be read: {e}", path.display());
                return Err(Failure::usage("dev_project_missing", text));
            }
        };
        let file = DevProject::parse(&text, &path)?;
        let folder = std::path::absolute(folder)?;
        let place = |path: &PathBuf| std::path::absolute(folder.join(path));
        let name = file.component.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            name,
            component: place(&file.component)?,
            policy: file.policy.as_ref().map(place).transpose()?,
            watch: file.watch.iter().map(place).collect::<Result<_, _>>()?,
            folder,
            file,
        })
    }

    /// `path` as the author writes it.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.folder).unwrap_or(path).display().to_string()
    }
}

/// Says what to write, by the files that are there.
fn missing(folder: &Path) -> Failure {
    if !folder.is_dir() {
        let text = format!("{}: no such folder. Name a plugin's project", folder.display());
        return Failure::usage("dev_project_missing", text);
    }
    let has = |name: &str| folder.join(name).exists();
    let (build, component) = if has("Cargo.toml") {
        (
            r#"["cargo", "build", "--release", "--target", "wasm32-wasip2"]"#,
            "target/wasm32-wasip2/release/NAME.wasm",
        )
    } else if has("package.json") {
        (r#"["npm", "run", "build"]"#, "build/NAME.wasm")
    } else {
        (r#"["make"]"#, "build/NAME.wasm")
    };
    let text = format!(
        "{}: there is no {file}. Write one with the command that builds the plugin, and what it makes: \
         build = {build} and component = {component:?}, a line each; policy = \"NAME.toml\" names the policy \
         file. Or begin a new project with `layby new`",
        folder.display(),
        file = DevRules::FILE
    );
    Failure::usage("dev_project_missing", text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn paths_begin_at_the_projects_folder() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            "build = [\"make\"]\ncomponent = \"out/./my_tool.wasm\"\npolicy = \"my.toml\"\nwatch = [\"src\"]";
        std::fs::write(file(folder.path()), text).unwrap();
        let project = Project::open(folder.path()).unwrap();
        assert_eq!(project.name, "my_tool");
        assert_eq!(project.shown(&project.component), "out/my_tool.wasm");
        assert_eq!(project.watch, [folder.path().join("src")]);
    }

    #[test]
    fn a_missing_file_says_what_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let why = |folder: &Path| Project::open(folder).unwrap_err().message;
        assert!(why(folder.path()).contains("[\"make\"]"));
        std::fs::write(folder.path().join("Cargo.toml"), "").unwrap();
        assert!(why(folder.path()).contains("wasm32-wasip2"));
        assert!(why(&folder.path().join("nowhere")).contains("no such folder"));
    }

    #[test]
    fn the_file_is_bounded_and_regular() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", file(folder.path())).unwrap();
        let why = || Project::open(folder.path()).unwrap_err().message;
        assert!(why().contains("not a regular file"), "{}", why());
        std::fs::remove_file(file(folder.path())).unwrap();
        std::fs::write(file(folder.path()), "#".repeat((1 << 20) + 1)).unwrap();
        assert!(why().contains("larger than 1MiB"), "{}", why());
    }
}
