//! A working folder in which the commands of one page run.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::foreign;
use crate::{sh, tools::Environment};

/// How long one block may run: a build from nothing on two shared cores, its downloads included.
const BLOCK_LIMIT: Duration = Duration::from_secs(15 * 60);

/// How often a running block is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The folder, what is set, and what runs in the background.
pub(super) struct Shell {
    /// Where the next block starts: `cd` persists.
    here: PathBuf,
    /// For the shell's own notes, beside the working folder.
    notes: PathBuf,
    environment: Environment,
    background: Vec<Group>,
}

/// A process and all that it started, killed when dropped.
struct Group {
    child: Child,
    output: PathBuf,
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut kill = Command::new("kill");
        kill.args(["-KILL", "--", &format!("-{}", self.child.id())]);
        // The group may be gone already.
        let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

impl Shell {
    /// Empties `folder` and starts there.
    pub(super) fn new(folder: &Path, environment: Environment) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("{} cannot be emptied", folder.display()))?;
        }
        let (here, notes) = (folder.join("work"), folder.join("notes"));
        fs::create_dir_all(&here)?;
        fs::create_dir_all(&notes)?;
        Ok(Self {
            here: here.canonicalize()?,
            notes: notes.canonicalize()?,
            environment,
            background: Vec::new(),
        })
    }

    /// Runs a block; returns all that it printed, standard error included.
    pub(super) fn run(&mut self, script: &str) -> Result<String> {
        let cwd = self.notes.join("cwd");
        let mut group =
            self.spawn(&format!("{script}\npwd > {}\n", sh::quoted(&cwd.to_string_lossy())), "block")?;
        let status = wait(&mut group.child)?;
        let printed = fs::read(&group.output)?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        match status {
            Some(status) if status.success() => {}
            Some(status) => bail!("ended with {status}:\n{script}printed:\n{printed}{}", self.others()),
            None => bail!("went on for more than {} s:\n{script}printed:\n{printed}", BLOCK_LIMIT.as_secs()),
        }
        self.here =
            fs::read_to_string(&cwd).context("the block left no folder")?.trim_end_matches('\n').into();
        Ok(printed)
    }

    /// Starts a block that goes on until the end of the page.
    pub(super) fn start(&mut self, script: &str) -> Result<()> {
        let group = self.spawn(script, &format!("background-{}", self.background.len()))?;
        self.background.push(group);
        Ok(())
    }

    /// Writes a file.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<()> {
        let file = self.here.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&file, text).with_context(|| format!("{path} cannot be written"))
    }

    /// Stops what runs in the background. One that has ended by itself with a failure is an error.
    pub(super) fn end(mut self) -> Result<()> {
        for group in &mut self.background {
            if let Some(status) = group.child.try_wait()?
                && !status.success()
            {
                let printed = fs::read_to_string(&group.output).unwrap_or_default();
                bail!("a block in the background ended with {status}:\n{printed}");
            }
        }
        Ok(())
    }

    fn spawn(&self, script: &str, name: &str) -> Result<Group> {
        use std::os::unix::process::CommandExt as _;
        let output = self.notes.join(name);
        let file = fs::File::create(&output)?;
        let mut bash = Command::new("bash");
        bash.args(["-eu", "-c", script]).current_dir(&self.here).process_group(0);
        for (name, _) in env::vars_os().filter(|(name, _)| foreign(name)) {
            bash.env_remove(name);
        }
        self.environment.apply(&mut bash)?;
        // As in a pipe, whatever this chore's own terminal is.
        bash.env("NO_COLOR", "1").env("CARGO_TERM_COLOR", "never").env("CARGO_TERM_PROGRESS_WHEN", "never");
        bash.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = bash.spawn().context("bash cannot be started")?;
        Ok(Group { child, output })
    }

    /// What blocks in the background printed, for an error.
    fn others(&self) -> String {
        let printed = |group: &Group| {
            format!("\nin the background:\n{}", fs::read_to_string(&group.output).unwrap_or_default())
        };
        self.background.iter().map(printed).collect()
    }
}

/// How it ended; nothing where its time ran out.
fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    let give_up = Instant::now() + BLOCK_LIMIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > give_up {
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str) -> Result<Shell> {
        let folder = env::temp_dir().join(format!("layby-guides-test-{}-{name}", std::process::id()));
        Shell::new(&folder, Environment::default())
    }

    #[test]
    fn folders_persist_and_failures_are_told() -> Result<()> {
        let mut shell = shell("run")?;
        shell.run("mkdir a && cd a")?;
        shell.write("b/c", "text\n")?;
        assert_eq!(shell.run("basename \"$PWD\"; cat b/c; echo err >&2")?, "a\ntext\nerr\n");
        let error = format!("{:#}", shell.run("echo before; false; echo after").expect_err("it failed"));
        assert!(
            error.contains("exit status: 1")
                && error.contains("before\n")
                && !error.contains("printed:\nafter")
        );
        assert!(shell.run("echo $NO_SUCH_VARIABLE_HERE").is_err());
        fs::remove_dir_all(shell.notes.parent().context("a parent")?)?;
        Ok(())
    }

    #[test]
    fn the_background_ends_with_all_that_it_started() -> Result<()> {
        let mut shell = shell("background")?;
        shell.start("sleep 1000 & echo $! > inner; wait")?;
        shell.run("until test -s inner; do sleep 0.02; done")?;
        let inner = fs::read_to_string(shell.here.join("inner"))?;
        let folder = shell.notes.parent().context("a parent")?.to_owned();
        shell.end()?;
        // A zombie still has a folder in /proc until its new parent has waited for it.
        let state = || fs::read_to_string(format!("/proc/{}/stat", inner.trim())).unwrap_or_default();
        let give_up = Instant::now() + Duration::from_secs(10);
        while !state().is_empty() && !state().contains(") Z ") {
            assert!(Instant::now() < give_up, "{}", state());
            thread::sleep(LOOK);
        }
        fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn a_background_that_fails_is_an_error() -> Result<()> {
        let mut shell = shell("failing")?;
        shell.start("echo why; touch done; exit 3")?;
        shell.run("until test -e done; do sleep 0.02; done; sleep 0.2")?;
        let folder = shell.notes.parent().context("a parent")?.to_owned();
        let error = shell.end().expect_err("it failed").to_string();
        assert!(error.contains("why"), "{error}");
        fs::remove_dir_all(folder)?;
        Ok(())
    }
}
