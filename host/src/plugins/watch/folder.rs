//! What a look at the folder changes.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use notify::Watcher as _;
use tokio_util::sync::CancellationToken;

use super::Watcher;
use crate::{
    plugins::{
        problem::Problem,
        scan::{self, Found, Seen},
    },
    store::PluginRow,
};

impl Watcher {
    /// One look at the folder.
    pub(super) async fn look(&mut self, cancel: &CancellationToken) {
        let folder = self.checker.config.serve.plugins.clone();
        let signed = self.checker.config.catalog.is_signed();
        let scanned = tokio::task::spawn_blocking(move || scan::scan(&folder, signed));
        // A network file system may hang: the end does not wait for it.
        let found = tokio::select! {
            () = cancel.cancelled() => return,
            scanned = scanned => scanned.unwrap_or_else(|e| Err(std::io::Error::other(e))),
        };
        match found {
            Ok(found) => {
                self.folder_lost = false;
                self.take_in(found, false).await;
            }
            Err(e) if !self.folder_lost => {
                self.folder_lost = true;
                let folder = self.checker.config.serve.plugins.display();
                tracing::warn!(
                    %folder,
                    "the plugin folder cannot be read, what serves goes on: {e}; make the folder readable again"
                );
            }
            Err(_) => {}
        }
    }

    /// Compares what was found with what is known.
    pub(super) async fn take_in(&mut self, found: Found, first: bool) {
        self.watch_folder(found.folder);
        let now = Instant::now();
        let settle = self.settle();
        let mut odd: BTreeMap<String, Problem> = found
            .misnamed
            .into_iter()
            .map(|name| {
                let reason = "its name is not 1 to 64 of A-Z a-z 0-9 _ - .".to_owned();
                (name, Problem::unreadable(reason))
            })
            .collect();
        for (name, pair) in &found.plugins {
            let most = self.checker.config.catalog.max_plugins as usize;
            if !self.slots.contains_key(name) {
                if self.slots.len() >= most {
                    let reason = format!("the folder holds more plugins than `max-plugins` allows ({most})");
                    odd.insert(name.clone(), Problem::too_large(reason));
                    continue;
                }
                let fresh = PluginRow { name: name.clone(), ..PluginRow::default() };
                let slot = self.past.remove(name).unwrap_or(fresh);
                let slot = self.new_slot(slot);
                self.slots.insert(name.clone(), slot);
            }
            let Some(slot) = self.slots.get_mut(name) else { continue };
            slot.gone_since = None;
            match pair {
                Ok(pair) => {
                    let age = if first { pair.age() } else { Duration::ZERO };
                    slot.seen = Some(Seen::observe(slot.seen, *pair, now, age));
                }
                Err(reason) => {
                    // Once it can be looked at again it is checked again, changed or not.
                    slot.seen = None;
                    slot.taken = None;
                    let problem = Problem::unreadable(reason);
                    self.refuse(name, &problem, None).await;
                }
            }
        }
        self.note_odd(odd);

        let mut gone = Vec::new();
        for (name, slot) in &mut self.slots {
            if !found.plugins.contains_key(name) {
                slot.seen = None;
                if now >= *slot.gone_since.get_or_insert(now) + settle {
                    gone.push(name.clone());
                }
            }
        }
        for name in gone {
            self.remove(&name, found.policies.contains(&name)).await;
        }
        let unpoliced: Vec<_> = self.past.keys().filter(|n| !found.policies.contains(*n)).cloned().collect();
        for name in unpoliced {
            if let Some(row) = self.past.remove(&name) {
                self.forget(row, false).await;
            }
        }
    }

    fn note_odd(&mut self, odd: BTreeMap<String, Problem>) {
        self.odd.retain(|name, _| odd.contains_key(name));
        for (name, problem) in odd {
            let known = self.odd.get(&name).is_some_and(|r| r.reason == problem.reason);
            if !known {
                tracing::warn!(plugin = %name, code = problem.code, "refused: {}; {}", problem.reason, problem.advice);
                self.odd.insert(name, problem.refusal(None, self.clock.now()));
            }
        }
    }

    /// Watches the folder, again where another folder has taken its place. Without a watch, polling remains.
    fn watch_folder(&mut self, id: (u64, u64)) {
        if self.folder_watch.as_ref().is_some_and(|(_, watched)| *watched == id) {
            return;
        }
        let wake = Arc::clone(&self.folder_events);
        let watch = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|e| !e.kind.is_access()) {
                wake.notify_one();
            }
        });
        let watched = watch.and_then(|mut watch| {
            watch.watch(&self.checker.config.serve.plugins, notify::RecursiveMode::NonRecursive)?;
            Ok(watch)
        });
        match watched {
            Ok(watch) => self.folder_watch = Some((watch, id)),
            Err(e) => {
                if self.folder_watch.take().is_some() || self.slots.is_empty() {
                    tracing::info!(
                        "the system does not tell of changes in the plugin folder, it is polled: {e}"
                    );
                }
            }
        }
    }
}
