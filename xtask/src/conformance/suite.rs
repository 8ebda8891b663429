//! Running the suite's program.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    Revision,
    checks::{self, Outcome, Scenario},
};

/// A run of one revision. Some scenarios have no bound of their own: a host that hangs would hang the suite.
const RUN_WITHIN: Duration = Duration::from_secs(600);

/// The suite, and the server that it runs against.
pub(super) struct Suite<'a> {
    node: &'a Path,
    program: PathBuf,
    url: &'a str,
    folder: &'a Path,
}

impl<'a> Suite<'a> {
    pub(super) fn new(node: &'a Path, packages: &Path, url: &'a str, folder: &'a Path) -> Self {
        let program = packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        Self { node, program, url, folder }
    }

    /// Every scenario of a revision.
    pub(super) fn all(&self, revision: &Revision) -> Result<Vec<Outcome>> {
        let scenarios = self.scenarios(revision)?;
        let out = self.server(revision.name, &["--requirements", revision.name])?;
        scenarios.into_iter().map(|scenario| checks::read(&out, scenario)).collect()
    }

    /// One scenario, where the revision has it.
    pub(super) fn one(&self, revision: &Revision, name: &str) -> Result<Option<Outcome>> {
        let Some(scenario) = self.scenarios(revision)?.into_iter().find(|s| s.name == name) else {
            return Ok(None);
        };
        let mut args = vec!["--scenario", name];
        // With the option a scenario of the extension is skipped; without it, it runs at the newest revision.
        if !scenario.is_of_tasks() {
            args.extend(["--spec-version", revision.name]);
        }
        let out = self.server(revision.name, &args)?;
        checks::read(&out, scenario).map(Some)
    }

    /// The scenarios for servers that a run of this revision has.
    fn scenarios(&self, revision: &Revision) -> Result<Vec<Scenario>> {
        let mut list = self.command();
        list.args(["list", "--server", "--requirements", revision.name]);
        let output = list.output().with_context(|| format!("cannot start {list:?}"))?;
        ensure!(output.status.success(), "{list:?}: {}", String::from_utf8_lossy(&output.stderr));
        let found = checks::listed(&String::from_utf8_lossy(&output.stdout));
        let scored = found.iter().filter(|s| s.scored).count();
        let expected = (revision.scored, revision.unscored);
        ensure!(
            (scored, found.len() - scored) == expected,
            "the suite lists {scored} scored scenarios and {} others for {}, and not {expected:?}",
            found.len() - scored,
            revision.name
        );
        Ok(found)
    }

    /// Runs `conformance server`; the folder with what it wrote.
    fn server(&self, name: &str, args: &[&str]) -> Result<PathBuf> {
        let out = self.folder.join(name);
        let log = self.folder.join(format!("{name}.log"));
        let file = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = self.command();
        command.args(["server", "--url", self.url, "--output-dir"]).arg(&out).args(args);
        command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
        eprintln!("xtask: the suite at {name} …");
        let start = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if start.elapsed() > RUN_WITHIN {
                // Gone or not, it is reaped below.
                let _ = child.kill();
                let _ = child.wait();
                bail!("the suite has not ended after {RUN_WITHIN:?}; its log is {}", log.display());
            }
            thread::sleep(Duration::from_millis(50));
        };
        eprintln!("xtask: the suite at {name}: {:.1} s", start.elapsed().as_secs_f64());
        // 1 means that some scenario failed, which the counting tells better.
        ensure!(
            matches!(status.code(), Some(0 | 1)),
            "the suite ended with {status}; its log is {}",
            log.display()
        );
        Ok(out)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.node);
        command.arg(&self.program);
        command
    }
}
