//! Goes on with tasks that are nobody's: parked ones whose answers are there or whose time has come, and those of
//! processes that are gone.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Asks, Client, Runs,
    admission::Permit,
    drive::{Driver, Resuming, last_round},
    foreign::Foreign,
    outcome::tool_error,
    past::{Past, Settings, Unread},
    run::{Origin, Run},
    target::{Kind, Subject, Work},
};
use crate::{
    base::{ByteSize, Class, Digest, Fault, Principal, TaskId},
    capabilities::Request,
    config::TaskRules,
    engine::SEMANTICS,
    journal::{Damaged, Kept},
    plugins::{Pinned, Plugin},
    store::{Closed, End, Except, Sealed, Task},
    tasks::Held,
};

/// The shares of resumes.
pub(super) struct Resumes {
    /// Resumes that replay at once: they leave most of the host to new calls. One whose last attempt ended with its
    /// process takes all.
    shares: Arc<Semaphore>,
    all: u32,
    /// Tasks and resumed runs that wait for a slot, by plugin: no more of such a plugin are looked for meanwhile, so that
    /// others' are found.
    waiting: Mutex<BTreeMap<String, u32>>,
    /// What only another host can go on with.
    foreign: Foreign,
}

/// One that waits for a slot; dropped, it does no more.
struct WaitsForSlot {
    runs: Arc<Runs>,
    plugin: String,
}

impl Drop for WaitsForSlot {
    fn drop(&mut self) {
        let mut waiting = self.runs.resumes.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = waiting.get_mut(&self.plugin) {
            *n -= 1;
            if *n == 0 {
                waiting.remove(&self.plugin);
                drop(waiting);
                self.runs.tasks.resume_hint().notify_one();
            }
        }
    }
}

/// What a task may run in once it is claimed.
struct Slot {
    permit: Permit,
    /// The memory in it.
    memory: ByteSize,
}

impl Slot {
    fn new(permit: Permit, plugin: &Plugin) -> Self {
        Self { permit, memory: plugin.policy.limits.memory }
    }
}

/// A journal that can be gone on with.
struct Opened {
    kept: Kept,
    settings: Settings,
    /// How many pieces it had.
    pieces: u32,
}

/// Why a task is not gone on with.
enum Stop {
    /// Something on our side.
    Host(String),
    /// This host has not the key to what it began with; another one may.
    Closed(Closed),
    /// It needs what this host's version has not; another one may.
    Version(String),
    /// It never can be.
    Ends(Fault),
    /// Its resumes have replayed too much.
    Limit(String),
}

impl Resumes {
    pub(super) fn new(concurrency: u32) -> Self {
        let all = (concurrency / TaskRules::RESUME_SHARE).max(1);
        Self {
            shares: Arc::new(Semaphore::new(all as usize)),
            all,
            waiting: Mutex::default(),
            foreign: Foreign::default(),
        }
    }

    async fn share(&self, alone: bool) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        self.shares.clone().acquire_many_owned(if alone { self.all } else { 1 }).await.ok()
    }

    /// What is not looked for now: plugins whose tasks wait for a slot, and what only another host can go on with.
    fn but(&self) -> Except {
        let plugins = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        Except { plugins, tasks: self.foreign.tasks(Instant::now()) }
    }
}

impl Runs {
    /// Looks for tasks to go on with, until the host ends.
    pub(super) fn start_resuming(self: &Arc<Self>) {
        let runs = self.clone();
        self.drivers.spawn_on(async move { runs.resume_all().await }, &self.guests_handle);
    }

    async fn resume_all(self: Arc<Self>) {
        loop {
            let full = self.resume_some().await;
            tokio::select! {
                biased;
                () = self.drain.cancelled() => return,
                // There are more: at once.
                () = std::future::ready(()), if full => {}
                () = self.tasks.resume_hint().notified() => {}
                () = tokio::time::sleep(TaskRules::RESUME.duration()) => {}
            }
        }
    }

    /// One look; true where there may be more to do.
    async fn resume_some(self: &Arc<Self>) -> bool {
        let but = self.resumes.but();
        let mut tasks = match self.tasks.resumable(but, TaskRules::RESUME_STEP).await {
            Ok(tasks) => tasks,
            Err(fault) => {
                tracing::warn!("looking for tasks to resume failed; trying again: {fault}");
                return false;
            }
        };
        let mut full = tasks.len() >= TaskRules::RESUME_STEP as usize;
        // Whatever is wrong with one that a process may have died of, the others are live before it.
        tasks.sort_by_key(|task| task.attempts);
        let catalog = self.plugins.catalog();
        for task in tasks {
            // A slot comes before the claim: what cannot run here is left to processes that have one.
            let slot = match catalog.plugins.get(&task.plugin) {
                None => None,
                Some(plugin) => match self.slots.try_admit(plugin, &task.principal, Class::On) {
                    None => {
                        self.queue(task, plugin.clone());
                        continue;
                    }
                    Some(permit) => Some(Slot::new(permit, plugin)),
                },
            };
            match self.set_out(task, slot).await {
                Some(begun) => full &= begun,
                None => return false,
            }
        }
        full
    }

    /// Lets the task wait for a slot of its plugin, where not too many do. It stays anybody's.
    fn queue(self: &Arc<Self>, task: Task, plugin: Arc<Plugin>) {
        let Some(waits) = self.wait_for_slot(&plugin.name, Some(self.resumes.all)) else { return };
        let runs = self.clone();
        let waiter = async move {
            let permit = tokio::select! {
                biased;
                () = runs.drain.cancelled() => return,
                permit = runs.slots.readmit(&plugin, &task.principal) => permit,
            };
            runs.set_out(task, Some(Slot::new(permit, &plugin))).await;
            drop(waits);
        };
        self.drivers.spawn_on(waiter, &self.guests_handle);
    }

    /// Goes on with a task, once it has its share of the replays. False where it must not be now; none where the host stops.
    async fn set_out(self: &Arc<Self>, task: Task, slot: Option<Slot>) -> Option<bool> {
        let alone = task.attempts > 0;
        let share = tokio::select! {
            biased;
            () = self.drain.cancelled() => None,
            share = self.resumes.share(alone) => share,
        }?;
        if alone && !self.may_resume_alone().await {
            return Some(false);
        }
        // Not torn by the end of the caller: a claimed task needs its driver.
        let runs = self.clone();
        self.drivers.spawn_on(async move { runs.resume(task, share, slot).await }, &self.guests_handle);
        Some(true)
    }

    /// One more of a plugin's tasks that wait for a slot; none where there are as many as there may be.
    fn wait_for_slot(self: &Arc<Self>, plugin: &str, most: Option<u32>) -> Option<WaitsForSlot> {
        let mut waiting = self.resumes.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let n = waiting.entry(plugin.to_owned()).or_default();
        if most.is_some_and(|most| *n >= most) {
            return None;
        }
        *n += 1;
        Some(WaitsForSlot { runs: self.clone(), plugin: plugin.to_owned() })
    }

    /// A slot for a resumed run of a plugin that nobody serves, and then a share of the replays where it `lent` its own.
    pub(super) async fn readmit_resumed(
        self: &Arc<Self>,
        plugin: &Plugin,
        caller: &Principal,
        lent: bool,
    ) -> (Permit, Option<OwnedSemaphorePermit>) {
        let waits = self.wait_for_slot(&plugin.name, None);
        let permit = self.slots.readmit(plugin, caller).await;
        drop(waits);
        (permit, if lent { self.resumes.share(false).await } else { None })
    }

    /// False where another process resumes one alone just now.
    async fn may_resume_alone(&self) -> bool {
        match self.tasks.others_alone().await {
            Ok(others) => !others,
            Err(fault) => {
                tracing::warn!("looking for what others resume failed; trying again: {fault}");
                false
            }
        }
    }

    async fn resume(self: Arc<Self>, found: Task, share: OwnedSemaphorePermit, slot: Option<Slot>) {
        let alone = found.attempts > 0;
        // Before the claim: a host that cannot go on with it leaves no trace in its row, and keeps nobody from it.
        let mut opened = self.opened(found.id).await;
        if let Err(stop @ (Stop::Closed(_) | Stop::Version(_))) = &opened {
            return self.leave_to_others(&found, stop);
        }
        let (held, task) = match self.tasks.claim(&found, alone).await {
            Ok(Some(claimed)) => claimed,
            Ok(None) => return,
            Err(fault) => {
                tracing::warn!(task = %found.id, "a task was not claimed; trying again: {fault}");
                return;
            }
        };
        // A holder that was taken for dead may have written in between; from the claim on it cannot.
        if !matches!(&opened, Ok(opened) if opened.pieces == task.pieces) {
            opened = self.opened(task.id).await;
        }
        match self.past_of(&task, found.crashes(), opened).await {
            Ok((run, request)) => {
                tracing::debug!(task = %task.id, plugin = task.plugin, tool = task.tool, "resuming");
                run.became(task.id);
                // Another version may need other memory: then it waits for its own.
                let memory = run.work.plugin.policy.limits.memory;
                let permit = slot.filter(|slot| slot.memory == memory).map(|slot| slot.permit);
                let resuming = Resuming { round: last_round(&task), share, alone };
                Driver::resumed(self.clone(), run, request, held, &task, resuming).drive(permit).await;
            }
            Err(stop) => self.give_up(held, &task, stop).await,
        }
    }

    /// The journal of a task, and what it began with.
    async fn opened(&self, id: TaskId) -> Result<Opened, Stop> {
        let pieces = self.tasks.journal(id).await.map_err(|fault| Stop::Host(fault.to_string()))?;
        let kept = Kept::open(&pieces).map_err(unreadable)?;
        if kept.header.semantics != SEMANTICS {
            let text =
                "it began under another version's rules of WebAssembly, and waits for a host that has them";
            return Err(Stop::Version(text.into()));
        }
        let settings = Settings::read(&kept.header, Some(&self.vault)).map_err(|why| match why {
            Unread::Closed(closed) => Stop::Closed(closed),
            Unread::NoKey => Stop::Host(why.to_string()),
            Unread::Damaged(_) => no_valid("settings"),
        })?;
        let pieces = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        Ok(Opened { kept, settings, pieces })
    }

    /// Looks for others from now on.
    fn leave_to_others(&self, task: &Task, stop: &Stop) {
        self.resumes.foreign.note(task.id, Instant::now());
        if let Stop::Closed(closed) = stop {
            let whose = format!(
                "the task {} of {} is not resumed here, nor are others like it",
                task.id, task.plugin
            );
            self.vault.tell(Sealed::Settings, &whose, closed);
        } else if let Stop::Version(why) = stop {
            tracing::warn!(task = %task.id, plugin = task.plugin, tool = task.tool, "left to other hosts: {why}");
        }
    }

    /// The run that `task` is, with all that it has behind it. `crashes`: resumes of it alone that ended with their process.
    async fn past_of(
        &self,
        task: &Task,
        crashes: u32,
        opened: Result<Opened, Stop>,
    ) -> Result<(Arc<Run>, Arc<Request>), Stop> {
        if self.plugins.is_revoked(task.digest) {
            return Err(Stop::Ends(Fault::revoked(task.digest)));
        }
        if crashes >= TaskRules::POISON {
            let text = format!("The task was resumed alone {crashes} times, and each time the host crashed.");
            return Err(Stop::Ends(Fault::internal("resume_crashes", text)));
        }
        let Opened { kept, settings, .. } = opened?;
        let header = &kept.header;
        let request = settings.request(header).ok_or_else(|| no_valid("arguments"))?;
        let budget = settings.limits.fuel.saturating_mul(TaskRules::REPLAYS);
        if task.replayed >= budget {
            return Err(Stop::Limit(over_budget(task, budget)));
        }
        let client = Client::from_bits(header.client);
        let kind = settings.kind;
        let want = Pinned {
            plugin: task.plugin.clone(),
            digest: Digest(header.digest),
            name: task.tool.clone(),
            own_name: header.tool.clone(),
            limits: settings.limits,
            call: settings.call,
            grants: settings.grants,
        };
        let work = match kind {
            Kind::Tool => Work::of_tool(self.plugins.pinned_tool(want).await.map_err(Stop::Host)?),
            Kind::Prompt => {
                let prompt = self.plugins.pinned_prompt(want).await.map_err(Stop::Host)?;
                Work { plugin: prompt.plugin.clone(), subject: Subject::Prompt(prompt) }
            }
            Kind::Resource => Work {
                plugin: self.plugins.pinned_plugin(want).await.map_err(Stop::Host)?,
                subject: Subject::Resource(header.tool.clone()),
            },
        };
        let past = Past::of(kept, &work.plugin.policy.limits, work.plugin.prepared.code(), self.tasks.now());
        let origin = Origin {
            principal: task.principal.clone(),
            client,
            outlet: None,
            asks: Asks::Retry,
            mark: Digest([0; 32]),
            // A row without a handle and without a key has asked before.
            returns: !task.revealed && task.key.is_none(),
        };
        let run = Run::new(work, origin, past, Arc::downgrade(&self.plugins), self.rounds.clone());
        Ok((run, Arc::new(request)))
    }

    /// Hands back what this host cannot go on with now, and settles nothing.
    async fn wait_for_host(&self, held: Held) -> Result<Task, Fault> {
        let retry = self.tasks.now() + TaskRules::HOST_RETRY;
        self.tasks.hand_back(held, Some(retry), true).await
    }

    async fn give_up(&self, held: Held, task: &Task, stop: Stop) {
        let given = match stop {
            Stop::Host(why) | Stop::Version(why) => {
                tracing::error!(task = %task.id, plugin = task.plugin, tool = task.tool, "not resumed now: {why}");
                self.wait_for_host(held).await
            }
            // Its header does not change: before the claim it was open.
            Stop::Closed(closed) => {
                tracing::error!(task = %task.id, plugin = task.plugin, tool = task.tool, "not resumed now: {closed}");
                self.wait_for_host(held).await
            }
            Stop::Limit(text) => {
                tracing::warn!(task = %task.id, plugin = task.plugin, tool = task.tool, limit = "replay", "{text}");
                let result = serde_json::to_value(tool_error("limit_replay", text)).unwrap_or_default();
                self.tasks.settle(&held, End::Completed(result)).await
            }
            Stop::Ends(fault) => {
                tracing::error!(task = %task.id, plugin = task.plugin, tool = task.tool, "cannot be resumed: {fault}");
                self.tasks.settle(&held, End::Failed(fault.to_json())).await
            }
        };
        if let Err(fault) = given {
            tracing::warn!(task = %task.id, "the task was not given up: {fault}");
        }
    }
}

fn over_budget(task: &Task, budget: u64) -> String {
    let times = TaskRules::REPLAYS;
    format!(
        "The tool {:?} was stopped: going on with it {} times has taken {} instructions, and may take {times} times \
         limits.fuel = {budget}. Ask or sleep less often after much work, or raise limits.fuel.",
        task.tool, task.resumed, task.replayed
    )
}

fn no_valid(what: &str) -> Stop {
    Stop::Ends(Fault::internal("journal_damaged", format!("The task's journal has no valid {what}.")))
}

fn unreadable(damaged: Damaged) -> Stop {
    match damaged {
        // A newer host reads it.
        Damaged::Version { .. } => Stop::Version(damaged.to_string()),
        _ => Stop::Ends(Fault::internal("journal_damaged", format!("The task cannot go on: {damaged}."))),
    }
}
