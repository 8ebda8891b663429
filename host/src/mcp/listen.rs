//! `subscriptions/listen`: what one subscription tells, message by message (MCP 2026-07-28, subscriptions;
//! tasks extension, task status notifications). HTTP and stdio frame it.
//!
//! Nothing is queued per change: a subscription keeps which lists, resources and tasks have changed, each once,
//! and reads their state when its client takes the next message. So it is bounded by what it asked for.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{
    sync::{
        OwnedSemaphorePermit, Semaphore,
        broadcast::{self, error::RecvError},
        watch,
    },
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{Handler, convert};
use crate::{
    base::{Fault, Principal, TaskId},
    config::{ListenRules, ServeConfig},
    plugins::{Catalog, Revisions},
    tasks::Tasks,
};

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// `params.notifications`: what a client wants to hear of.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    tools_list_changed: Option<bool>,
    prompts_list_changed: Option<bool>,
    resources_list_changed: Option<bool>,
    resource_subscriptions: Option<Vec<String>>,
    task_ids: Option<Vec<String>>,
}

impl Filter {
    /// What one subscription may watch is bounded: its state is kept for as long as it is open.
    fn check(&self) -> Result<(), Fault> {
        let (uris, tasks) = (self.resource_subscriptions.as_deref(), self.task_ids.as_deref());
        let (uris, tasks) = (uris.unwrap_or_default(), tasks.unwrap_or_default());
        let too_large = |text: String| Err(Fault::invalid("subscription_too_large", text));
        let (most, bytes) = (ListenRules::WATCHED, ListenRules::URI.as_usize());
        if uris.len() > most || tasks.len() > most {
            return too_large(format!(
                "One subscription watches at most {most} resources and {most} tasks. Open another for the rest."
            ));
        }
        if uris.iter().any(|uri| uri.len() > bytes) {
            return too_large(format!("A URI of a resource has at most {}.", ListenRules::URI));
        }
        Ok(())
    }
}

/// The places for subscriptions: a number for the host, and a share of it for each principal.
pub struct Places {
    all: Arc<Semaphore>,
    held: Arc<Mutex<BTreeMap<Principal, u32>>>,
    most: u32,
    each: u32,
}

impl Places {
    /// As configured.
    pub fn new(config: &ServeConfig) -> Self {
        Self {
            all: Arc::new(Semaphore::new(config.max_subscriptions as usize)),
            held: Arc::default(),
            most: config.max_subscriptions,
            each: config.max_subscriptions_each,
        }
    }

    fn take(&self, principal: &Principal) -> Result<Place, Fault> {
        let full = |text| Err(Fault::internal("too_many_subscriptions", text));
        let Ok(permit) = self.all.clone().try_acquire_owned() else {
            let most = self.most;
            return full(format!(
                "{most} subscriptions are open (serve.max-subscriptions). Close one, or try later."
            ));
        };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = held.entry(principal.clone()).or_default();
        if *mine >= self.each {
            let each = self.each;
            return full(format!(
                "You have {each} subscriptions open (serve.max-subscriptions-each). Close one first."
            ));
        }
        *mine += 1;
        Ok(Place { _permit: permit, held: self.held.clone(), principal: principal.clone() })
    }
}

/// One taken place; dropping it gives it back.
struct Place {
    _permit: OwnedSemaphorePermit,
    held: Arc<Mutex<BTreeMap<Principal, u32>>>,
    principal: Principal,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = held.get_mut(&self.principal) {
            *mine -= 1;
            if *mine == 0 {
                held.remove(&self.principal);
            }
        }
    }
}

/// Which lists.
#[derive(Clone, Copy, Default)]
struct Lists {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl Lists {
    const fn any(self) -> bool {
        self.tools || self.prompts || self.resources
    }

    /// The next one to tell of, taken out.
    fn pop(&mut self) -> Option<&'static str> {
        for (changed, method) in [
            (&mut self.tools, "notifications/tools/list_changed"),
            (&mut self.prompts, "notifications/prompts/list_changed"),
            (&mut self.resources, "notifications/resources/list_changed"),
        ] {
            if std::mem::take(changed) {
                return Some(method);
            }
        }
        None
    }
}

/// One open subscription.
pub struct Subscription {
    id: RequestId,
    principal: Principal,
    tasks: Arc<Tasks>,
    server: Value,
    stop: CancellationToken,
    /// What must be told before anything else, or last.
    queue: VecDeque<Value>,
    ended: bool,
    lists: Lists,
    catalog: watch::Receiver<Arc<Catalog>>,
    seen: Revisions,
    changed: Lists,
    uris: BTreeSet<Arc<str>>,
    contents: broadcast::Receiver<Arc<str>>,
    updated: BTreeSet<Arc<str>>,
    /// Watched tasks, with a mark of what was told last.
    watched: BTreeMap<TaskId, Option<u64>>,
    changes: broadcast::Receiver<TaskId>,
    dirty: BTreeSet<TaskId>,
    /// When tasks that another process runs are looked at again.
    look: Instant,
    _place: Place,
}

impl Subscription {
    /// Why one ends whose client took no message for too long.
    pub const SLOW: &str = "You took no message for too long, and some may be missing. Listen again, then read again \
                            what you watch: lists, resources and tasks.";

    /// Opens one. Everything is listened to before any state is read, so that no change falls in between.
    /// It ends in order once `stop` is cancelled.
    ///
    /// # Errors
    /// `missing_client_capability` (-32021) for `taskIds` from a client that did not declare tasks (`with_tasks`),
    /// `subscription_too_large`, `too_many_subscriptions`, `store_…`.
    pub async fn open(
        handler: &Handler,
        places: &Places,
        id: RequestId,
        principal: Principal,
        filter: Filter,
        with_tasks: bool,
        stop: CancellationToken,
    ) -> Result<Self, Fault> {
        if filter.task_ids.is_some() && !with_tasks {
            return Err(Fault::tasks_required(
                "notifications.taskIds needs the io.modelcontextprotocol/tasks extension: declare it in this request.",
            ));
        }
        filter.check()?;
        let place = places.take(&principal)?;
        let (plugins, tasks) = (handler.plugins(), handler.tasks());
        let mut catalog = plugins.watch();
        let (contents, changes) = (plugins.contents(), tasks.changes());
        let seen = catalog.borrow_and_update().revisions;
        let wants = |flag: Option<bool>| flag == Some(true);
        let lists = Lists {
            tools: wants(filter.tools_list_changed),
            prompts: wants(filter.prompts_list_changed),
            resources: wants(filter.resources_list_changed),
        };
        let uris = filter.resource_subscriptions.iter().flatten().map(|uri| uri.as_str().into());
        let mut open = Self {
            id,
            principal,
            tasks: tasks.clone(),
            server: handler.server(),
            stop,
            queue: VecDeque::new(),
            ended: false,
            lists,
            catalog,
            seen,
            changed: Lists::default(),
            uris: uris.collect(),
            contents,
            updated: BTreeSet::new(),
            watched: BTreeMap::new(),
            changes,
            dirty: BTreeSet::new(),
            look: Instant::now() + ListenRules::LOOK.duration(),
            _place: place,
        };
        open.acknowledge(filter).await?;
        Ok(open)
    }

    /// Says what is watched: of the tasks those that are the caller's. Each of them is told as it is now, since
    /// it may have ended while the client was about to listen.
    async fn acknowledge(&mut self, filter: Filter) -> Result<(), Fault> {
        let mut agreed = Map::new();
        for (on, name) in [
            (self.lists.tools, "toolsListChanged"),
            (self.lists.prompts, "promptsListChanged"),
            (self.lists.resources, "resourcesListChanged"),
        ] {
            if on {
                agreed.insert(name.into(), true.into());
            }
        }
        if let Some(uris) = filter.resource_subscriptions {
            agreed.insert("resourceSubscriptions".into(), uris.into());
        }
        if let Some(ids) = filter.task_ids {
            for id in ids {
                match self.tasks.read(&self.principal, &id).await {
                    Ok(task) => {
                        self.watched.insert(task.id, None);
                        self.dirty.insert(task.id);
                    }
                    Err(fault) if matches!(fault.code, "task_unknown" | "task_expired") => {}
                    Err(fault) => return Err(fault),
                }
            }
            let mine: Vec<Value> = self.watched.keys().map(|id| id.to_string().into()).collect();
            agreed.insert("taskIds".into(), mine.into());
        }
        let params = json!({"notifications": agreed});
        self.queue.push_back(self.notification("notifications/subscriptions/acknowledged", params));
        Ok(())
    }

    fn notification(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({SUBSCRIPTION_ID: &self.id});
        json!({"jsonrpc": "2.0", "method": method, "params": params})
    }

    /// Ends it in order: `notifications/cancelled`, then the result (MCP 2026-07-28, cancellation and
    /// subscriptions). What has changed and was not told is forgotten.
    pub fn end(&mut self, reason: &str) {
        if self.ended {
            return;
        }
        self.ended = true;
        let params = json!({"requestId": &self.id, "reason": reason});
        self.queue.push_back(self.notification("notifications/cancelled", params));
        let meta = json!({SUBSCRIPTION_ID: &self.id, "io.modelcontextprotocol/serverInfo": &self.server});
        let result = json!({"resultType": "complete", "_meta": meta});
        self.queue.push_back(json!({"jsonrpc": "2.0", "id": &self.id, "result": result}));
    }

    /// The next message; none after the last. Cancel-safe.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(message) = self.queue.pop_front() {
                return Some(message);
            }
            if self.ended {
                return None;
            }
            if self.stop.is_cancelled() {
                self.end("The server is shutting down. Listen again when it is back.");
            } else if let Some(method) = self.changed.pop() {
                return Some(self.notification(method, json!({})));
            } else if let Some(uri) = self.updated.pop_first() {
                return Some(self.notification("notifications/resources/updated", json!({"uri": &*uri})));
            } else if let Some(id) = self.dirty.first().copied() {
                let told = self.state(id).await;
                // Only now: this future may have been dropped while it read.
                self.dirty.remove(&id);
                if told.is_some() {
                    return told;
                }
            } else {
                self.wait().await;
            }
        }
    }

    /// Waits for a change, and notes it.
    async fn wait(&mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            changed = self.catalog.changed(), if self.lists.any() => match changed {
                Ok(()) => self.compare(),
                Err(_) => self.lists = Lists::default(),
            },
            uri = self.contents.recv(), if !self.uris.is_empty() => match uri {
                Ok(uri) => {
                    if self.uris.contains(&uri) {
                        self.updated.insert(uri);
                    }
                }
                // Some were missed: that they all changed costs the client a few reads.
                Err(RecvError::Lagged(_)) => self.updated = self.uris.clone(),
                Err(RecvError::Closed) => self.uris.clear(),
            },
            id = self.changes.recv(), if !self.watched.is_empty() => match id {
                Ok(id) => {
                    if self.watched.contains_key(&id) {
                        self.dirty.insert(id);
                    }
                }
                Err(_) => self.dirty.extend(self.watched.keys().copied()),
            },
            () = tokio::time::sleep_until(self.look), if !self.watched.is_empty() => {
                self.look = Instant::now() + ListenRules::LOOK.duration();
                self.dirty.extend(self.watched.keys().copied());
            }
        }
    }

    fn compare(&mut self) {
        let now = self.catalog.borrow_and_update().revisions;
        self.changed.tools |= self.lists.tools && now.tools != self.seen.tools;
        self.changed.prompts |= self.lists.prompts && now.prompts != self.seen.prompts;
        self.changed.resources |= self.lists.resources && now.resources != self.seen.resources;
        self.seen = now;
    }

    /// The task as `tasks/get` would give it now, where that is not what was told last.
    async fn state(&mut self, id: TaskId) -> Option<Value> {
        let task = match self.tasks.read(&self.principal, &id.to_string()).await {
            Ok(task) => task,
            Err(fault) => {
                if matches!(fault.code, "task_unknown" | "task_expired") {
                    self.watched.remove(&id);
                } else {
                    tracing::warn!(task = %id, "a subscription could not read a task: {fault}");
                }
                return None;
            }
        };
        let ended = task.status.is_terminal();
        let told = convert::detailed(task).ok().and_then(|task| serde_json::to_value(task).ok());
        let Some(params) = told else {
            tracing::error!(task = %id, "a subscription could not tell of a task");
            self.watched.remove(&id);
            return None;
        };
        let mut mark = DefaultHasher::new();
        params.to_string().hash(&mut mark);
        let mark = Some(mark.finish());
        if ended {
            self.watched.remove(&id);
        } else if self.watched.insert(id, mark) == Some(mark) {
            return None;
        }
        Some(self.notification("notifications/tasks", params))
    }
}
