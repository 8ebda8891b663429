//! `layby dev`: builds a plugin's project on change, serves it, and shows what happens.

mod build;
mod files;
mod log;
mod pace;
mod place;
mod project;
mod queue;
mod say;
mod served;
mod watch;
mod work;

use std::path::PathBuf;

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{
    place::Folder,
    project::Project,
    say::{Say, Tone},
    work::Dev,
};
use super::{
    Global,
    exit::{Exit, Failure},
    logging, serve,
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

/// Builds and serves until Ctrl-C or SIGTERM, or until nobody can read any more what it prints.
///
/// # Errors
/// No project, bad configuration, an address that cannot be bound. A build that fails is no error: the
/// next change builds again.
pub(crate) fn run(args: Args, global: &Global) -> Result<Exit, Failure> {
    let project = Project::open(&args.project)?;
    let say = Say::new(global.json)?;
    let ended = serve_and_build(args, global, project, say);
    if ended.is_ok() {
        say.event(Tone::Plain, "stopped", "", "stopped", json!({}));
    }
    say.finish(DevRules::LAST_LINES.duration());
    ended.map(|()| Exit::Ok)
}

fn serve_and_build(args: Args, global: &Global, project: Project, say: Say) -> Result<(), Failure> {
    let own = (log::Lines(say), log::FILTER);
    logging::install_beside(global.log.as_deref(), global.verbose, global.color, own)?;
    let (data, temporary) = match args.data {
        Some(data) => (data, None),
        None => {
            let folder = Temporary::new("layby-dev")?;
            (folder.path().to_owned(), Some(folder))
        }
    };
    let mut config = global.load()?;
    let folder = Folder::open(data.join("dev").join(&project.name), &project.name, &config.catalog)?;
    config.serve.listen = args.listen.unwrap_or(config.serve.listen);
    config.serve.data = data;
    config.store.url.clear();
    config.store.seal_key.clear();
    config.serve.plugins = folder.path().to_owned();
    config.serve.drain = config.serve.drain.min(DevRules::DRAIN);
    config.trust_replacements = true;
    // What was built a moment ago has no signature yet.
    config.catalog.signers.clear();
    config.catalog.settle = config.catalog.settle.min(DevRules::SETTLE);
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_name("dev").enable_all().build()?;
    let ended = runtime.block_on(develop(project, folder, config, say));
    // A file system that hangs does not hold up the end.
    runtime.shutdown_timeout(DevRules::LAST_LINES.duration());
    drop(temporary);
    ended
}

async fn develop(project: Project, folder: Folder, config: Config, say: Say) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let running = tokio::select! {
        running = serve::start(config, None) => running?,
        () = signals.next() => return Ok(()),
    };
    let url = &running.url;
    say.event(Tone::Plain, "listening", &format!("at {url}"), "listening", json!({"url": url}));
    let mut dev = Dev::new(project, folder, &running, say).await;
    tokio::select! {
        () = dev.work() => {}
        () = signals.next() => {}
        () = say.gone() => {}
    }
    let Dev { build, watch, .. } = dev;
    let build = async {
        if let Some(build) = build {
            build.end().await;
        }
    };
    // The second signal leaves at once: what is dropped here is killed.
    tokio::select! {
        _ = async { tokio::join!(build, watch.close(), running.stop()) } => {}
        () = signals.next() => {}
        () = tokio::time::sleep(DevRules::END.duration()) => {}
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
