//! `layby dev`: builds a plugin's project on change, serves it, and shows what happens.

mod build;
mod files;
mod log;
mod place;
mod project;
mod say;
mod served;
mod watch;

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use serde_json::json;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use self::{
    files::Changes,
    place::Folder,
    project::Project,
    say::{Say, Tone},
    served::Served,
    watch::Watch,
};
use super::{
    Global,
    exit::{Exit, Failure},
    logging,
    serve::{self, Running},
    show,
    temporary::Temporary,
};
use crate::config::{Config, DevRules};

/// Options of `layby dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the plugin's project, with layby-dev.toml
    #[arg(default_value = ".", value_name = "DIR")]
    project: PathBuf,
    /// Address and port to listen on [default: 127.0.0.1:7331]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Folder of the database, compiled code and keys, kept at the end; without it a temporary one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Builds and serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// No project, bad configuration, an address that cannot be bound. A build that fails is no error: the
/// next change builds again.
pub(crate) fn run(args: Args, global: &Global) -> Result<Exit, Failure> {
    let say = Say::new(global.json);
    let project = Project::open(&args.project)?;
    let own = (log::Lines(say), log::FILTER);
    logging::install_beside(global.log.as_deref(), global.verbose, global.color, own)?;
    let (data, temporary) = match args.data {
        Some(data) => (data, None),
        None => {
            let folder = Temporary::new("layby-dev")?;
            (folder.path().to_owned(), Some(folder))
        }
    };
    let folder = Folder::open(data.join("dev").join(&project.name), &project.name)?;
    let mut config = global.load()?;
    config.serve.listen = args.listen.unwrap_or(config.serve.listen);
    config.serve.data = data;
    config.serve.plugins = folder.path().to_owned();
    config.serve.drain = config.serve.drain.min(DevRules::DRAIN);
    config.trust_replacements = true;
    config.catalog.settle = config.catalog.settle.min(DevRules::SETTLE);
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_name("dev").enable_all().build()?;
    let ended = runtime.block_on(develop(project, folder, config, say));
    drop(temporary);
    ended?;
    say.event(Tone::Plain, "stopped", "", "stopped", json!({}));
    Ok(Exit::Ok)
}

async fn develop(project: Project, folder: Folder, config: Config, say: Say) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let running = serve::start(config, None).await?;
    say.event(
        Tone::Plain,
        "listening",
        &format!("at {}", running.url),
        "listening",
        json!({"url": running.url}),
    );
    let watch = Watch::start(project.clone(), say).await;
    let mut dev = Dev {
        say,
        folder,
        project,
        watch,
        running,
        served: Served::default(),
        build: None,
        good: false,
        ended: SystemTime::UNIX_EPOCH,
        own_changes: 0,
    };
    dev.start_build(None);
    dev.until(&mut signals).await;
    if let Some(build) = dev.build.take() {
        build.stop.cancel();
        // How it ended is nobody's concern any more.
        let _ = build.task.await;
    }
    dev.watch.close().await;
    tokio::select! {
        () = dev.running.stop() => {}
        () = signals.next() => {}
    }
    Ok(())
}

/// What ends the command.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> std::io::Result<Self> {
        let [a, b, c] = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Self([a?, b?, c?]))
    }

    /// The next one. Cancel-safe.
    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// A build that runs.
struct Build {
    task: JoinHandle<Result<Duration, Failure>>,
    stop: CancellationToken,
    /// What has changed since it began.
    changes: Option<Changes>,
}

/// The loop's state.
struct Dev {
    say: Say,
    folder: Folder,
    project: Project,
    watch: Watch,
    running: Running,
    served: Served,
    build: Option<Build>,
    /// The last build made what its project says.
    good: bool,
    /// When the last build ended.
    ended: SystemTime,
    /// Builds in a row that were due to changes which an earlier one may have made itself.
    own_changes: u32,
}

impl Dev {
    async fn until(&mut self, signals: &mut Signals) {
        let mut catalog = self.running.catalog();
        loop {
            let build = &mut self.build;
            let built = async {
                match build {
                    Some(build) => (&mut build.task).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = signals.next() => return,
                Ok(()) = catalog.changed() => {}
                changes = self.watch.next() => self.changed(changes).await,
                ended = built => self.built(ended.unwrap_or_else(|e| Err(anyhow::Error::from(e).into()))),
            }
            let now = catalog.borrow_and_update().clone();
            let (lies, policy) = (self.folder.policy(&self.project.name), self.project.policy.as_ref());
            let (lies, policy) = (lies.display().to_string(), policy.map(|path| self.project.shown(path)));
            // The author knows the policy by the name of the project's file.
            let shown =
                |text: &str| policy.as_ref().map_or_else(|| text.to_owned(), |p| text.replace(&lies, p));
            self.served.tell(&now, &self.project.name, &self.running.url, self.say, shown);
        }
    }

    /// Something has changed: build, now or after the build that runs.
    async fn changed(&mut self, changes: Changes) {
        if changes.paths.contains(&project::file(&self.project.folder)) && !self.reopen().await {
            return;
        }
        if changes.paths.iter().all(|path| Some(path) == self.project.policy.as_ref()) {
            return self.put_policy();
        }
        if let Some(build) = &mut self.build {
            build.changes = Some(changes);
            return;
        }
        let own = changes.newest.is_some_and(|at| at <= self.ended);
        self.rebuild(&changes, own);
    }

    /// Reads the project again. False where it is not as it must be: the last good one stays.
    async fn reopen(&mut self) -> bool {
        let opened = Project::open(&self.project.folder)
            .and_then(|project| Ok((self.folder.keep(&project.name)?, project)));
        match opened {
            Ok(((), project)) => {
                self.project = project.clone();
                let old = std::mem::replace(&mut self.watch, Watch::start(project, self.say).await);
                old.close().await;
                true
            }
            Err(failure) => {
                self.say.failure("project:", "project_invalid", &failure);
                false
            }
        }
    }

    fn put_policy(&mut self) {
        // A build that runs puts it, too; and what a failed one left is not to be served.
        if self.build.is_some() || !self.good {
            return;
        }
        match self.folder.put(&self.project) {
            Ok(_) => self.say.event(Tone::Plain, "policy", "has changed", "policy", json!({})),
            Err(failure) => self.say.failure("policy:", "policy_invalid", &failure),
        }
    }

    /// Builds for `changes`, which the last build may have made itself (`own`): then not for ever.
    fn rebuild(&mut self, changes: &Changes, own: bool) {
        self.own_changes = if own { self.own_changes + 1 } else { 0 };
        if self.own_changes <= DevRules::OWN_CHANGES {
            return self.start_build(Some(changes));
        }
        let text = format!(
            "{} changed during {} builds in a row, so that no build begins for it: leave out of `watch` what the build writes",
            self.list(changes),
            DevRules::OWN_CHANGES
        );
        self.say.event(Tone::Warn, "watch", &text, "watch", json!({"message": text}));
    }

    fn list(&self, changes: &Changes) -> String {
        let names: Vec<String> = changes.paths.iter().take(3).map(|path| self.project.shown(path)).collect();
        let more = changes.paths.len() - names.len();
        if more > 0 { format!("{} and {more} more", names.join(", ")) } else { names.join(", ") }
    }

    fn start_build(&mut self, changes: Option<&Changes>) {
        let command = self.project.file.build.join(" ");
        let why = changes.map_or_else(String::new, |changes| format!(" ({} changed)", self.list(changes)));
        let paths = changes.iter().flat_map(|c| &c.paths).map(|path| self.project.shown(path));
        let members = json!({"command": self.project.file.build, "changed": paths.collect::<Vec<_>>()});
        self.say.event(Tone::Plain, "building:", &format!("{command}{why}"), "build_started", members);
        let (project, say, stop) = (self.project.clone(), self.say, CancellationToken::new());
        let stopped = stop.clone();
        let task = tokio::spawn(async move { build::run(&project, say, &stopped).await });
        self.build = Some(Build { task, stop, changes: None });
    }

    fn built(&mut self, ended: Result<Duration, Failure>) {
        self.ended = SystemTime::now();
        let changes = self.build.take().and_then(|build| build.changes);
        let placed = ended.and_then(|took| Ok((took, self.folder.put(&self.project)?)));
        self.good = placed.is_ok();
        match placed {
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
                self.say.event(
                    Tone::Bad,
                    "build failed:",
                    &format!("{failure}\n{rest}"),
                    "build_failed",
                    members,
                );
            }
        }
        if let Some(changes) = changes {
            self.rebuild(&changes, true);
        }
    }
}
