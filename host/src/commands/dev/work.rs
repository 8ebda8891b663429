//! The loop: what has changed, what is being built, and what came of it.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    build,
    files::Files,
    pace::Pace,
    place::Folder,
    project::{self, Project},
    say::{Say, Tone},
    served::Served,
    watch::Watch,
};
use crate::{
    commands::{exit::Failure, serve::Running, show},
    config::DevRules,
    plugins::Catalog,
};

/// A build that runs.
pub(super) struct Build {
    task: JoinHandle<Result<Duration, Failure>>,
    stop: CancellationToken,
    /// The watched files as it found them.
    base: Files,
    /// What has been seen to change since.
    changes: BTreeSet<PathBuf>,
}

impl Build {
    /// Ends it with all that it has started.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        // How it ended is nobody's concern any more.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        // With it goes its group of processes.
        self.task.abort();
    }
}

/// A build that is to be.
struct Due {
    at: Instant,
    /// What it is due to.
    paths: BTreeSet<PathBuf>,
}

/// The loop's state.
pub(super) struct Dev {
    say: Say,
    url: String,
    catalog: watch::Receiver<Arc<Catalog>>,
    folder: Folder,
    project: Project,
    pub(super) watch: Watch,
    /// The watched files, as they were seen last.
    files: Files,
    served: Served,
    pub(super) build: Option<Build>,
    due: Option<Due>,
    pace: Pace,
    /// The last build ended well.
    good: bool,
    /// The plugin that lies in the folder.
    placed: String,
    /// The last remark on a pause.
    remark: String,
}

impl Dev {
    pub(super) async fn new(project: Project, folder: Folder, running: &Running, say: Say) -> Self {
        let watch = Watch::start(project.clone(), say).await;
        let files = look(&project, Files::default()).await;
        Self {
            say,
            url: running.url.clone(),
            catalog: running.catalog(),
            folder,
            placed: project.name.clone(),
            project,
            watch,
            files,
            served: Served::default(),
            build: None,
            due: None,
            pace: Pace::default(),
            good: false,
            remark: String::new(),
        }
    }

    /// Builds, and builds again, for ever. May be dropped at any time: `build` is what then still runs.
    pub(super) async fn work(&mut self) {
        self.start_build().await;
        loop {
            let Self { build, due, watch, catalog, .. } = &mut *self;
            let idle = build.is_none();
            let built = async {
                match build {
                    Some(build) => (&mut build.task).await,
                    None => std::future::pending().await,
                }
            };
            let due = async {
                match due {
                    Some(due) if idle => tokio::time::sleep_until(due.at.into()).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                Ok(()) = catalog.changed() => {}
                () = watch.next() => {
                    let changes = self.look().await;
                    self.changed(changes).await;
                }
                ended = built => {
                    self.built(ended.unwrap_or_else(|e| Err(anyhow::Error::from(e).into()))).await;
                }
                () = due => self.start_build().await,
            }
            self.tell();
        }
    }

    fn tell(&mut self) {
        let now = self.catalog.borrow_and_update().clone();
        let (lies, policy) = (self.folder.policy(&self.placed), self.project.policy.as_ref());
        let (lies, policy) = (lies.display().to_string(), policy.map(|path| self.project.shown(path)));
        // The author knows the policy by the name of the project's file.
        let shown = |text: &str| policy.as_ref().map_or_else(|| text.to_owned(), |p| text.replace(&lies, p));
        self.served.tell(&now, &self.placed, &self.url, self.say, shown);
    }

    /// Looks at the files: what differs from the last time.
    async fn look(&mut self) -> BTreeSet<PathBuf> {
        let files = look(&self.project, self.files.clone()).await;
        let old = std::mem::replace(&mut self.files, files);
        old.changes(&self.files)
    }

    /// Something has changed: build, now or after the build that runs.
    async fn changed(&mut self, mut changes: BTreeSet<PathBuf>) {
        if changes.remove(&project::file(&self.project.folder)) && self.reopen().await {
            return;
        }
        if self.project.policy.as_ref().is_some_and(|path| changes.remove(path)) {
            self.policy_changed();
        }
        if changes.is_empty() {
            return;
        }
        match &mut self.build {
            Some(build) => build.changes.extend(changes),
            None => {
                let pause = self.pace.idle(&changes);
                self.wait(changes, pause);
            }
        }
    }

    /// Reads the project again, and builds it. False where it is not as it must be: the last good one stays.
    async fn reopen(&mut self) -> bool {
        let project = match Project::open(&self.project.folder) {
            Ok(project) => project,
            Err(failure) => {
                self.say.failure("project:", "project_invalid", &failure);
                return false;
            }
        };
        self.project = project.clone();
        let old = std::mem::replace(&mut self.watch, Watch::start(project, self.say).await);
        old.close().await;
        // What was watched before is nothing to compare with.
        self.look().await;
        if let Some(build) = &self.build {
            // What it makes may not be wanted any more, and it may hang.
            build.stop.cancel();
        }
        self.pace = Pace::default();
        self.wait([project::file(&self.project.folder)].into(), Duration::ZERO);
        true
    }

    /// Puts the policy beside what serves. A build that runs or has failed makes no difference to it.
    fn policy_changed(&mut self) {
        let put = if self.good && self.build.is_none() {
            // Its lack may be all that kept the component back.
            self.put().map(|_| true)
        } else {
            self.folder.put_policy(&self.project)
        };
        match put {
            Ok(true) => self.say.event(Tone::Plain, "policy", "has changed", "policy", json!({})),
            Ok(false) => {}
            Err(failure) => self.say.failure("policy:", "policy_invalid", &failure),
        }
    }

    fn put(&mut self) -> Result<super::place::Placed, Failure> {
        let placed = self.folder.put(&self.project)?;
        self.placed.clone_from(&self.project.name);
        Ok(placed)
    }

    /// A build is due to `paths` after `pause`, or earlier where it is already.
    fn wait(&mut self, paths: BTreeSet<PathBuf>, pause: Duration) {
        let at = Instant::now() + pause;
        match &mut self.due {
            Some(due) => {
                due.at = due.at.min(at);
                due.paths.extend(paths);
            }
            None => self.due = Some(Due { at, paths }),
        }
    }

    fn list(&self, paths: &BTreeSet<PathBuf>) -> String {
        let names: Vec<String> = paths.iter().take(3).map(|path| self.project.shown(path)).collect();
        let more = paths.len() - names.len();
        if more > 0 { format!("{} and {more} more", names.join(", ")) } else { names.join(", ") }
    }

    async fn start_build(&mut self) {
        // What has changed just now is in it.
        let changes = self.look().await;
        self.changed(changes).await;
        let paths = self.due.take().map(|due| due.paths).unwrap_or_default();
        let command = self.project.file.build.join(" ");
        let why = if paths.is_empty() { String::new() } else { format!(" ({} changed)", self.list(&paths)) };
        let shown: Vec<String> = paths.iter().map(|path| self.project.shown(path)).collect();
        let members = json!({"command": self.project.file.build, "changed": shown});
        self.say.event(Tone::Plain, "building:", &format!("{command}{why}"), "build_started", members);
        let (project, say, stop) = (self.project.clone(), self.say, CancellationToken::new());
        let stopped = stop.clone();
        let task = tokio::spawn(async move { build::run(&project, say, &stopped).await });
        self.build = Some(Build { task, stop, base: self.files.clone(), changes: BTreeSet::new() });
    }

    async fn built(&mut self, ended: Result<Duration, Failure>) {
        // While it is still there: what has changed up to now was changed during it.
        let changes = self.look().await;
        self.changed(changes).await;
        let Some(mut build) = self.build.take() else { return };
        if build.stop.is_cancelled() {
            // For a project that is another one now, whose build is due.
            let text = format!("{} has changed: the build that ran was stopped", DevRules::FILE);
            return self.say.watch(&text);
        }
        self.put_built(ended);
        let mut changed = build.base.changes(&self.files);
        changed.retain(|path| self.is_source(path));
        build.base.freshen(&self.files, &changed);
        let passing = std::mem::take(&mut build.changes).difference(&changed).cloned().collect();
        let Some((paths, pause)) = self.pace.ended(changed, passing) else { return };
        self.remark(&paths, pause);
        self.wait(paths, pause.max(self.project.file.debounce.duration()));
    }

    /// Whether a change of `path` is one of what is built.
    fn is_source(&self, path: &PathBuf) -> bool {
        Some(path) != self.project.policy.as_ref() && *path != project::file(&self.project.folder)
    }

    /// Says why the next build waits, where that is new.
    fn remark(&mut self, paths: &BTreeSet<PathBuf>, pause: Duration) {
        let mut text = String::new();
        if !pause.is_zero() {
            text = format!(
                "changed during several builds in a row, as if they wrote it: {}. The next build waits {} s. What \
                 builds write is to be left out of `watch` in {}: name there only what you write yourself",
                self.list(paths),
                pause.as_secs(),
                DevRules::FILE,
            );
            if text != self.remark {
                self.say.watch(&text);
            }
        }
        self.remark = text;
    }

    /// Serves what a build has made, or says what went wrong.
    fn put_built(&mut self, ended: Result<Duration, Failure>) {
        self.good = ended.is_ok();
        match ended.and_then(|took| Ok((took, self.put()?))) {
            Ok((took, placed)) => {
                let component = self.project.shown(&self.project.component);
                let same = if placed.same { ", as it was before" } else { "" };
                let text =
                    format!("{component}, {} in {:.1} s{same}", show::size(placed.size), took.as_secs_f64());
                let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                let members =
                    json!({"component": component, "size": placed.size, "ms": ms, "same": placed.same});
                self.say.event(Tone::Good, "built:", &text, "build_ok", members);
            }
            Err(failure) => {
                let serves = self.served.serves();
                let rest = if serves { "the version before goes on serving" } else { "nothing serves yet" };
                let members = json!({"code": failure.code, "message": failure.message, "serving": serves});
                let text = format!("{failure}\n{rest}");
                self.say.event(Tone::Bad, "build failed:", &text, "build_failed", members);
            }
        }
    }
}

/// Looks at all that `project` watches.
async fn look(project: &Project, old: Files) -> Files {
    let project = project.clone();
    let (kept, looked) = (old.clone(), tokio::task::spawn_blocking(move || Files::look(&project, &old)));
    // Only its own panic ends it: then nothing has been seen.
    looked.await.unwrap_or(kept)
}
