//! Tells of changes in a project's files, once they have come to rest.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{files::Files, project::Project, say::Say};
use crate::config::DevRules;

/// Watches one project until it is dropped or [`Watch::close`]d.
pub(super) struct Watch {
    changes: mpsc::Receiver<()>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Watch {
    /// What changes from now on is told.
    pub(super) async fn start(project: Project, say: Say) -> Self {
        let (tell, changes) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let mut watcher = Watcher {
            wake: Arc::default(),
            events: None,
            watched: BTreeSet::new(),
            files: Files::default(),
            project: Arc::new(project),
        };
        watcher.look().await;
        if watcher.files.too_many {
            let text = format!(
                "more than {} files or folders too deep: name fewer in `watch`; the rest is not watched",
                DevRules::FILES
            );
            say.watch(&text);
        }
        let task = tokio::spawn(watcher.run(tell, cancel.clone()));
        Self { changes, cancel, task }
    }

    /// Returns once files have changed since the last time, and are at rest. Cancel-safe.
    pub(super) async fn next(&mut self) {
        if self.changes.recv().await.is_none() {
            // Only its own panic ends the watcher before us.
            std::future::pending().await
        }
    }

    /// Ends it, and joins its work.
    pub(super) async fn close(self) {
        self.cancel.cancel();
        drop(self.changes);
        let _ = self.task.await;
    }
}

struct Watcher {
    project: Arc<Project>,
    files: Files,
    wake: Arc<Notify>,
    events: Option<RecommendedWatcher>,
    /// Folders that the system tells of.
    watched: BTreeSet<PathBuf>,
}

impl Watcher {
    async fn run(mut self, tell: mpsc::Sender<()>, cancel: CancellationToken) {
        let mut work = std::pin::pin!(async move {
            loop {
                // Not before what was told last has been taken: more changes join these.
                let Ok(place) = tell.reserve().await else { return };
                self.changes().await;
                place.send(());
            }
        });
        tokio::select! {
            () = cancel.cancelled() => {}
            () = &mut work => {}
        }
    }

    /// Waits for changes, and for their rest.
    async fn changes(&mut self) {
        let quiet = self.project.file.debounce.duration();
        loop {
            let told = tokio::time::timeout(DevRules::POLL.duration(), self.wake.notified()).await.is_ok();
            if told {
                self.rest(quiet).await;
            }
            let before = self.files.clone();
            self.look().await;
            if before.changes(&self.files).is_empty() {
                continue;
            }
            if !told {
                // Seen by looking: whoever writes may not be done.
                self.rest(quiet).await;
                self.look().await;
            }
            if !before.changes(&self.files).is_empty() {
                return;
            }
        }
    }

    /// Waits until nothing has changed for `quiet`.
    async fn rest(&self, quiet: Duration) {
        let most = Instant::now() + DevRules::DEBOUNCE_MOST.duration();
        while Instant::now() < most {
            if tokio::time::timeout(quiet, self.wake.notified()).await.is_err() {
                return;
            }
        }
    }

    async fn look(&mut self) {
        let (project, old) = (Arc::clone(&self.project), self.files.clone());
        let looked = tokio::task::spawn_blocking(move || Files::look(&project, &old)).await;
        if let Ok(files) = looked {
            self.files = files;
        }
        self.subscribe();
    }

    /// Lets the system tell of every folder, one by one: a recursive watch would include all dependencies.
    /// Where it cannot, looking remains.
    fn subscribe(&mut self) {
        let folders = self.files.folders.clone();
        if folders == self.watched {
            return;
        }
        if self.events.is_none() {
            let wake = Arc::clone(&self.wake);
            self.events = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                if event.is_ok_and(|e| !e.kind.is_access()) {
                    wake.notify_one();
                }
            })
            .ok();
        }
        if let Some(events) = &mut self.events {
            for gone in self.watched.difference(&folders) {
                let _ = events.unwatch(gone);
            }
            for new in folders.difference(&self.watched) {
                let _ = events.watch(new, RecursiveMode::NonRecursive);
            }
        }
        self.watched = folders;
    }
}
