//! The driver of one run: a future from admission to settlement. It alone promotes, puts
//! questions, stops the guest and settles, so every order of events has one place that decides.
//!
//! It is spawned on the guests' runtime (or polled once on the request's thread, for tools that
//! end at once), so a client that leaves never interrupts a commit.

mod active;
mod asking;
mod durable;
mod open;
mod promote;
mod receipt;

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::Instant,
};

use self::{
    active::Active,
    asking::Round,
    durable::Durable,
    open::{Answers, Open},
};
pub(super) use self::{
    durable::{Resuming, last_round},
    promote::new_task,
};
use super::{
    Answer, Runs,
    admission::Permit,
    outcome::{Ended, Outcome},
    pressure::Place,
    run::{Question, Run},
};
use crate::{
    base::{Class, Fault, Millis},
    capabilities::{self, Abort, Caller, Request, Setup, Used, wit_call},
    config::TaskRules,
    store,
    tasks::{Held, Signal},
};

/// What a promotion comes to.
type Promoted = Result<Box<(Held, store::Task)>, Fault>;

/// A slot, and a share of the replays for a run that lent its own while it waited.
type Admitted = (Permit, Option<OwnedSemaphorePermit>);

type Guest = Pin<Box<dyn Future<Output = (Ended, Used)> + Send>>;

/// What the driver reacts to.
enum Event {
    Admitted(Result<Admitted, Fault>),
    Ended(Ended, Used),
    Asked(Question),
    /// Whether it is a task now.
    Promoted(Promoted),
    /// A client of an older revision answered, or did not in time.
    Pushed(Answers),
    Signal(Signal),
    Gone,
    Progressed,
    /// The guest begins to sleep, or wakes.
    Slept,
    /// An effect waits for a commit.
    Commits,
    /// One has ended, and may share the commit of the next.
    CommitsSoon,
    Timer,
    HostStops,
    /// Nothing may run on its component any more.
    Revoked,
}

pub(super) struct Driver {
    runs: Arc<Runs>,
    run: Arc<Run>,
    request: Arc<Request>,
    /// The request that it began with, while that waits for an answer.
    reply: Option<oneshot::Sender<Answer>>,
    held: Option<Held>,
    /// It has an idempotency key: a client that leaves may come back by it.
    keyed: bool,
    /// A client has the task's handle.
    revealed: bool,
    /// Rounds of questions so far, and all their keys.
    rounds: u32,
    keys: std::collections::HashSet<String>,
    /// Answers that came with the call, where policy lets them count: for the first round.
    early: BTreeMap<String, Value>,
    /// A round that the store did not take yet.
    unput: Option<Round>,
    /// The commit that makes it a task, while that is under way. The guest runs on beside it, but its effects and questions
    /// wait for what comes of it.
    promoting: Option<BoxFuture<'static, Promoted>>,
    /// How long it waits after the next failure of that.
    promote_pause: Millis,
    admit: Option<BoxFuture<'static, Result<Admitted, Fault>>>,
    permit: Option<Permit>,
    guest: Option<Guest>,
    open: Option<Open>,
    /// Its place among the runs that wait, and may have to make room.
    place: Option<Place>,
    /// When the response must be answered; none while nobody waits for it.
    deadline: Option<Instant>,
    /// When the newest request was taken up.
    taken_at: Instant,
    active: Active,
    grace_until: Option<Instant>,
    waited: bool,
    durable: Durable,
}

/// What a driver starts with, beside its run.
pub(super) struct Start {
    pub(super) request: Request,
    /// The row that a keyed run has from admission on.
    pub(super) held: Option<Held>,
    /// `inputResponses` of the first request, unread.
    pub(super) early: BTreeMap<String, Value>,
    pub(super) reply: oneshot::Sender<Answer>,
}

impl Driver {
    pub(super) fn new(runs: Arc<Runs>, run: Arc<Run>, start: Start) -> Self {
        let now = Instant::now();
        let (client, call) = (run.client, run.work.policy());
        let early = if call.pre_answers { start.early } else { BTreeMap::new() };
        let kept = start.held.is_some() && run.past.journal.pinned().is_none();
        if let Some(held) = &start.held {
            run.became(held.id);
            run.becomes_durable(runs.tasks.leased());
        }
        Self {
            deadline: Some(now + client.patience(call).duration()),
            active: Active::new(run.work.plugin.policy.limits.active_time.duration(), runs.stalls.clone()),
            runs,
            request: Arc::new(start.request),
            reply: Some(start.reply),
            keyed: start.held.is_some(),
            held: start.held,
            revealed: false,
            rounds: 0,
            keys: std::collections::HashSet::new(),
            early,
            unput: None,
            promoting: None,
            promote_pause: TaskRules::STORE_RETRY,
            admit: None,
            permit: None,
            guest: None,
            open: None,
            place: None,
            taken_at: now,
            grace_until: None,
            waited: false,
            durable: if kept { Durable::kept() } else { Durable::default() },
            run,
        }
    }

    /// Goes on with a task from its journal.
    pub(super) fn resumed(
        runs: Arc<Runs>,
        run: Arc<Run>,
        request: Arc<Request>,
        held: Held,
        task: &store::Task,
        resuming: Resuming,
    ) -> Self {
        run.becomes_durable(runs.tasks.leased());
        Self {
            active: Active::new(task.active_left.duration(), runs.stalls.clone()),
            runs,
            request,
            reply: None,
            keyed: task.key.is_some(),
            held: Some(held),
            revealed: task.revealed,
            rounds: task.round().map_or(0, |round| round + 1),
            keys: task.questions.iter().map(|q| q.key.clone()).collect(),
            early: BTreeMap::new(),
            unput: None,
            promoting: None,
            promote_pause: TaskRules::STORE_RETRY,
            admit: None,
            permit: None,
            guest: None,
            open: None,
            place: None,
            deadline: None,
            taken_at: Instant::now(),
            grace_until: None,
            waited: true,
            durable: Durable::resumed(resuming, task),
            run,
        }
    }

    /// The whole life of the run, which may have a slot already.
    pub(super) async fn drive(mut self, permit: Option<Permit>) {
        let class = if self.durable.is_resumed() { Class::On } else { Class::New };
        let caller = &self.run.principal;
        match permit.or_else(|| self.runs.slots.try_admit(&self.run.work.plugin, caller, class)) {
            Some(permit) => self.start(permit),
            None => {
                self.waited = true;
                let lent = self.durable.lend();
                let (runs, run) = (self.runs.clone(), self.run.clone());
                self.admit = Some(Box::pin(async move {
                    match class {
                        Class::On => Ok(runs.readmit_resumed(&run.work.plugin, &run.principal, lent).await),
                        Class::New => Ok((runs.slots.admit(&run.work.plugin, &run.principal).await?, None)),
                    }
                }));
            }
        }
        loop {
            let event = self.next().await;
            let outcome = self.on(event).await;
            // Whatever else goes on: one that is never quiet would not come to it.
            let outcome = outcome.or_else(|| self.revoked());
            if let Some(outcome) = outcome {
                self.finish(outcome).await;
                return;
            }
        }
    }

    /// Waits for the next event. Cancel-safe: nothing is taken that is not returned.
    async fn next(&mut self) -> Event {
        self.keep_place();
        let timer = self.next_timer();
        let (run, runs) = (&self.run, &self.runs);
        let waiting = self.open.is_some() || self.unput.is_some();
        let unowned = self.held.is_none();
        let flying = !unowned && run.flights.any();
        // Past the handle a client may go as it likes.
        let needed = !self.keyed && !self.revealed;
        let promoting = self.promoting.is_some();
        // Else the notices are all that anybody hears.
        let reports = self.held.is_some() && self.reply.is_none();
        tokio::select! {
            biased;
            promoted = async { match &mut self.promoting { Some(p) => p.await, None => std::future::pending().await } } => {
                self.promoting = None;
                Event::Promoted(promoted)
            }
            ended = async { match &mut self.guest { Some(g) => g.await, None => std::future::pending().await } },
                if !waiting => Event::Ended(ended.0, ended.1),
            question = run.asked(), if !waiting && !promoting => Event::Asked(question),
            permit = async { match &mut self.admit { Some(a) => a.await, None => std::future::pending().await } } => {
                self.admit = None;
                Event::Admitted(permit)
            }
            answers = async { match &mut self.open { Some(o) => o.pushed().await, None => std::future::pending().await } } =>
                Event::Pushed(answers),
            signal = async { match &mut self.held { Some(h) => h.signal().await, None => std::future::pending().await } } =>
                Event::Signal(signal),
            () = run.gone.notified(), if needed && !promoting => Event::Gone,
            () = run.progressed.notified(), if reports => Event::Progressed,
            () = run.slept.notified(), if !unowned => Event::Slept,
            () = run.to_commit.notified(), if !promoting => Event::Commits,
            () = run.to_commit_soon.notified(), if !unowned => Event::CommitsSoon,
            // It may park now.
            () = run.flights.ended(), if flying => Event::Slept,
            // Others need its room.
            () = async { match &self.place { Some(p) => p.told().await, None => std::future::pending().await } } =>
                Event::Slept,
            () = tokio::time::sleep_until(timer) => Event::Timer,
            () = runs.drain.cancelled(), if waiting => Event::HostStops,
            () = runs.stop.cancelled() => Event::HostStops,
            () = runs.plugins.until_revoked(run.work.plugin.digest) => Event::Revoked,
        }
    }

    /// How it ends where its component is revoked.
    fn revoked(&self) -> Option<Outcome> {
        let digest = self.run.work.plugin.digest;
        if !self.runs.plugins.is_revoked(digest) {
            return None;
        }
        // Somebody was to have its end already, and gets it without the rest of its grace.
        Some(if self.run.is_cancelled() {
            Outcome::Cancelled
        } else {
            Outcome::Error(Fault::revoked(digest))
        })
    }

    fn next_timer(&self) -> Instant {
        let far = self.taken_at + Duration::from_secs(365 * 24 * 3600);
        let unput = self.unput.as_ref().filter(|_| self.promoting.is_none());
        let put = unput.and_then(|round| round.retry_at);
        let (flush, park, replay) = (self.flushes_at(), self.parks_at(), self.durable.replay_until());
        [self.deadline, self.active.until(), self.grace_until, put, flush, park, replay]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(far)
    }

    /// Reacts to one event; some outcome ends the run.
    async fn on(&mut self, event: Event) -> Option<Outcome> {
        match event {
            Event::Ended(ended, used) => Some(self.ended(ended, used)),
            Event::Asked(question) => self.asked(question).await,
            Event::Promoted(promoted) => self.promoted(promoted),
            Event::Admitted(Ok((permit, share))) => {
                self.durable.takes_share(share);
                match self.open.take() {
                    Some(open) => self.go_on(open, permit),
                    None => self.start(permit),
                }
                None
            }
            Event::Admitted(Err(fault)) => Some(Outcome::Error(fault)),
            Event::Pushed(answers) => {
                self.answered(answers);
                None
            }
            Event::Signal(signal) => self.signal(signal),
            // Nobody could come back to it.
            Event::Gone => self.cancel(),
            Event::Progressed => {
                if let (Some(held), Some(message)) = (&self.held, self.run.take_message()) {
                    self.runs.tasks.progress(held, message);
                }
                None
            }
            // The next timer is another one.
            Event::Slept => None,
            Event::Commits => self.commit_for_effects().await,
            Event::CommitsSoon => {
                self.commit_soon();
                None
            }
            Event::Timer => self.timer().await,
            Event::HostStops => Some(self.host_stops().await),
            Event::Revoked => self.revoked(),
        }
    }

    async fn host_stops(&mut self) -> Outcome {
        // A commit that is under way decides what there is to hand on.
        if let Some(promoting) = self.promoting.take()
            && let Some(outcome) = self.promoted(promoting.await)
        {
            return outcome;
        }
        // Its grace is over with the process.
        if self.run.is_cancelled() {
            return Outcome::Cancelled;
        }
        if self.is_resumable() {
            return Outcome::HandsBack { retry: None };
        }
        Outcome::Error(Fault::internal(
            "interrupted",
            "The host was shut down while this ran. What it had done is not known; call again.",
        ))
    }

    /// Makes the instance's future; it starts when it is first polled.
    fn start(&mut self, permit: Permit) {
        self.permit = Some(permit);
        if self.durable.is_resumed() {
            // A replay is not charged; but one that stands still is none.
            let limit = self.run.work.plugin.policy.limits.active_time;
            self.durable.watch(limit.max(TaskRules::REPLAY_STILL).duration());
        } else {
            self.active.start();
        }
        let (run, fuel_slice) = (self.run.clone(), self.runs.fuel_slice);
        let request = self.request.clone();
        self.guest = Some(Box::pin(async move {
            let plugin = &run.work.plugin;
            let caller: Arc<dyn Caller> = run.clone();
            let setup = Setup {
                limits: plugin.policy.limits.clone(),
                grants: plugin.granted.clone(),
                caller,
                seed: run.past.seed,
                journal: run.past.journal.clone(),
                began: run.past.began,
                flights: run.flights.clone(),
                fuel_slice,
                meter: run.meter.clone(),
            };
            capabilities::call(&plugin.prepared, setup, &request).await
        }));
    }

    fn ended(&mut self, ended: Ended, used: Used) -> Outcome {
        let quick =
            !self.waited && used.fuel <= self.runs.fuel_slice && used.elapsed < Duration::from_millis(2);
        if let Some(tool) = self.run.work.tool() {
            tool.pace.note(quick);
        }
        let failed = durable::host_failure(&ended).and_then(|why| self.host_failed(why));
        let mut outcome = failed.unwrap_or_else(|| Outcome::of(&self.run, ended));
        if let Outcome::Answer(Answer::Result(result)) = &mut outcome {
            self.receipt(used).write(result);
        }
        outcome
    }

    fn signal(&mut self, signal: Signal) -> Option<Outcome> {
        match signal {
            Signal::Answers(answers) => self.answered(Ok(answers)),
            Signal::TimedOut => self.answered(Err(wit_call::InputError::TimedOut)),
            Signal::Cancel => return self.cancel(),
            Signal::Unleased(_) if self.is_resumable() => return Some(Outcome::HandsBack { retry: None }),
            Signal::Stop(end) | Signal::Unleased(end) => return Some(Outcome::Stopped(end)),
        }
        None
    }

    /// Cooperative first: the guest sees it, and has its grace period.
    fn cancel(&mut self) -> Option<Outcome> {
        self.run.cancel();
        if self.guest.is_none() {
            return Some(Outcome::Cancelled);
        }
        if self.grace_until.is_none() {
            self.grace_until = Some(Instant::now() + self.run.work.policy().grace.duration());
        }
        // A guest that waits is told at once; it cleans up without a slot, within its grace.
        if let Some(round) = self.unput.take() {
            self.active.start();
            round.cancel();
        }
        if let Some(open) = self.open.take() {
            self.admit = None;
            self.active.start();
            open.give(Err(wit_call::InputError::Cancelled));
        }
        None
    }

    async fn timer(&mut self) -> Option<Outcome> {
        let now = Instant::now();
        if self.grace_until.is_some_and(|at| at <= now) {
            return Some(Outcome::Cancelled);
        }
        if self.durable.is_still(now, self.run.past.journal.calls()) {
            return self.host_failed("its replay stands still");
        }
        if self.active.until().is_some_and(|at| at <= now) {
            let limit = self.run.work.plugin.policy.limits.active_time;
            return Some(Outcome::of(
                &self.run,
                Err(Abort::Limit {
                    name: "active-time",
                    value: limit.to_string(),
                    advice: "Give it less to do in one call, or split the call.".into(),
                }),
            ));
        }
        let is_due = |round: &mut Round| round.retry_at.is_some_and(|at| at <= now);
        if self.promoting.is_none()
            && let Some(round) = self.unput.take_if(is_due)
        {
            return self.put(round).await;
        }
        if self.deadline.is_some_and(|at| at <= now) {
            return self.past_deadline().await;
        }
        if self.parks_at().is_some_and(|at| at <= now) {
            return Some(Outcome::Parks);
        }
        if self.flushes_at().is_some_and(|at| at <= now) {
            return self.flush().await;
        }
        None
    }
}
