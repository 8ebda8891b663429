//! The driver of one run: a future from admission to settlement. It alone promotes, puts
//! questions, stops the guest and settles, so every order of events has one place that decides.
//!
//! It is spawned on the guests' runtime (or polled once on the request's thread, for tools that
//! end at once), so a client that leaves never interrupts a commit.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Answer, Runs,
    admission::{Permit, Waiting},
    outcome::{Ended, Outcome},
    run::{Question, Run},
};
use crate::{
    base::{Fault, Millis, TaskId},
    capabilities::{self, Abort, Caller, Request, Response, Setup, Used, wit_call},
    config::CallPolicy,
    store::{self, End},
    tasks::{Held, NewTask, Signal},
};

type Guest = Pin<Box<dyn Future<Output = (Ended, Used)> + Send>>;
type Answers = Result<Vec<store::Answer>, wit_call::InputError>;

/// What the driver reacts to.
enum Event {
    Admitted(Result<Permit, Fault>),
    Ended(Ended, Used),
    Asked(Question),
    Signal(Signal),
    Gone,
    Progressed,
    Timer,
    HostStops,
}

/// A question that waits for its answers, or answers that wait for a slot.
struct Open {
    reply: oneshot::Sender<Answers>,
    answers: Option<Answers>,
    _waiting: Waiting,
}

pub(super) struct Driver {
    runs: Arc<Runs>,
    run: Arc<Run>,
    arguments: Option<String>,
    reply: Option<oneshot::Sender<Answer>>,
    held: Option<Held>,
    /// A client has the task's handle.
    revealed: bool,
    rounds: u32,
    admit: Option<BoxFuture<'static, Result<Permit, Fault>>>,
    permit: Option<Permit>,
    guest: Option<Guest>,
    open: Option<Open>,
    /// When the response must be answered; none once it has been.
    deadline: Option<Instant>,
    started: Instant,
    /// Active time that is left, counted while `active_since` is some.
    active_left: Duration,
    active_since: Option<Instant>,
    grace_until: Option<Instant>,
    waited: bool,
}

impl Driver {
    /// `held`: the row that a keyed run has from admission on.
    pub(super) fn new(
        runs: Arc<Runs>,
        run: Arc<Run>,
        arguments: String,
        held: Option<Held>,
        reply: oneshot::Sender<Answer>,
    ) -> Self {
        let started = Instant::now();
        let call = policy(&run);
        let open_for = if run.client.tasks { call.deadline } else { call.hold };
        Self {
            deadline: Some(started + open_for.duration()),
            active_left: run.tool.plugin.policy.limits.active_time.duration(),
            runs,
            arguments: Some(arguments),
            reply: Some(reply),
            held,
            revealed: false,
            rounds: 0,
            admit: None,
            permit: None,
            guest: None,
            open: None,
            started,
            active_since: None,
            grace_until: None,
            waited: false,
            run,
        }
    }

    /// The whole life of the run.
    pub(super) async fn drive(mut self) {
        match self.runs.slots.try_admit(&self.run.tool.plugin) {
            Some(permit) => self.start(permit),
            None => {
                self.waited = true;
                let (runs, plugin) = (self.runs.clone(), self.run.tool.plugin.clone());
                self.admit = Some(Box::pin(async move { runs.slots.admit(&plugin).await }));
            }
        }
        loop {
            let event = self.next().await;
            if let Some(outcome) = self.on(event).await {
                self.finish(outcome).await;
                return;
            }
        }
    }

    /// Waits for the next event. Cancel-safe: nothing is taken that is not returned.
    async fn next(&mut self) -> Event {
        let timer = self.next_timer();
        let (run, runs) = (&self.run, &self.runs);
        let waiting = self.open.is_some();
        let unowned = self.held.is_none();
        tokio::select! {
            biased;
            ended = async { match &mut self.guest { Some(g) => g.await, None => std::future::pending().await } },
                if !waiting => Event::Ended(ended.0, ended.1),
            question = run.asked(), if !waiting => Event::Asked(question),
            permit = async { match &mut self.admit { Some(a) => a.await, None => std::future::pending().await } } => {
                self.admit = None;
                Event::Admitted(permit)
            }
            signal = async { match &mut self.held { Some(h) => h.signal().await, None => std::future::pending().await } } =>
                Event::Signal(signal),
            () = run.gone.notified(), if unowned => Event::Gone,
            () = run.progressed.notified(), if self.revealed => Event::Progressed,
            () = tokio::time::sleep_until(timer) => Event::Timer,
            () = runs.drain.cancelled(), if waiting => Event::HostStops,
            () = runs.stop.cancelled() => Event::HostStops,
        }
    }

    fn next_timer(&self) -> Instant {
        let far = self.started + Duration::from_secs(365 * 24 * 3600);
        let active = self.active_since.map(|since| since + self.active_left);
        [self.deadline, active, self.grace_until].into_iter().flatten().min().unwrap_or(far)
    }

    /// Reacts to one event; some outcome ends the run.
    async fn on(&mut self, event: Event) -> Option<Outcome> {
        match event {
            Event::Ended(ended, used) => Some(self.ended(ended, used)),
            Event::Asked(question) => self.asked(question).await,
            Event::Admitted(Ok(permit)) => {
                match self.open.take() {
                    Some(open) => self.go_on(open, permit),
                    None => self.start(permit),
                }
                None
            }
            Event::Admitted(Err(fault)) => Some(Outcome::Error(fault)),
            Event::Signal(signal) => self.signal(signal),
            Event::Gone => self.cancel(),
            Event::Progressed => {
                if let (Some(held), Some(message)) = (&self.held, self.run.take_message()) {
                    self.runs.tasks.progress(held, message);
                }
                None
            }
            Event::Timer => self.timer().await,
            Event::HostStops => Some(Outcome::Error(Fault::internal(
                "interrupted",
                "The host was shut down while this ran. What it had done is not known; call again.",
            ))),
        }
    }

    /// Makes the instance's future; it starts when it is first polled.
    fn start(&mut self, permit: Permit) {
        self.permit = Some(permit);
        self.active_since = Some(Instant::now());
        let (run, fuel_slice) = (self.run.clone(), self.runs.fuel_slice);
        let arguments = self.arguments.take().unwrap_or_default();
        self.guest = Some(Box::pin(async move {
            let mut seed = [0; 32];
            if let Err(e) = getrandom::fill(&mut seed) {
                return (Err(Abort::Host(format!("no randomness: {e}"))), Used::default());
            }
            let plugin = &run.tool.plugin;
            let caller: Arc<dyn Caller> = run.clone();
            let setup = Setup {
                limits: plugin.policy.limits.clone(),
                grants: plugin.granted.clone(),
                caller,
                seed,
                fuel_slice,
                meter: run.meter.clone(),
            };
            let request = Request::Tool { name: run.tool.own_name.clone(), arguments };
            let (ended, used) = capabilities::call(&plugin.prepared, setup, request).await;
            let ended = ended.and_then(|response| match response {
                Response::Tool(answer) => Ok(answer),
                _ => Err(Abort::Host("the guest answered another request".into())),
            });
            (ended, used)
        }));
    }

    fn ended(&mut self, ended: Ended, used: Used) -> Outcome {
        let quick =
            !self.waited && used.fuel <= self.runs.fuel_slice && used.elapsed < Duration::from_millis(2);
        self.run.tool.pace.note(quick);
        Outcome::of(&self.run, ended)
    }

    /// Puts a question: commit first, then the guest waits without a slot.
    async fn asked(&mut self, question: Question) -> Option<Outcome> {
        if self.run.is_cancelled() {
            let _ = question.reply.send(Err(wit_call::InputError::Cancelled));
            return None;
        }
        let bytes = self.run.meter.load(std::sync::atomic::Ordering::Relaxed);
        let waiting = match self.runs.slots.try_wait(&self.run.tool.plugin, bytes) {
            Ok(waiting) => waiting,
            Err((name, value)) => {
                return Some(Outcome::of(
                    &self.run,
                    Err(Abort::Limit {
                        name,
                        value,
                        advice: "Answer or cancel tasks that wait, then call again.".into(),
                    }),
                ));
            }
        };
        let round = self.rounds;
        self.rounds += 1;
        let questions = question.requests.into_iter().map(|asked| store::Question {
            key: asked.key,
            round,
            kind: asked.kind,
            request: Arc::new(asked.request),
            answer: None,
        });
        self.pause();
        match self.put(questions.collect()).await {
            Ok(()) => {}
            // Somebody cancelled between the question and its commit: the signal is on its way.
            Err(fault) if fault.code == "task_cancelling" => {
                let outcome = self.cancel();
                self.active_since = Some(Instant::now());
                let _ = question.reply.send(Err(wit_call::InputError::Cancelled));
                return outcome;
            }
            Err(fault) => return Some(Outcome::Error(fault)),
        }
        self.open = Some(Open { reply: question.reply, answers: None, _waiting: waiting });
        None
    }

    /// Commits the questions, and the task with them where there is none yet.
    async fn put(&mut self, questions: Vec<store::Question>) -> Result<(), Fault> {
        let Some(held) = &self.held else {
            return self.promote(questions).await;
        };
        self.runs.tasks.ask(held, questions, policy(&self.run)).await?;
        self.reveal().await
    }

    /// Gives the slot back and stops the clock of active time.
    fn pause(&mut self) {
        self.permit = None;
        self.waited = true;
        if let Some(since) = self.active_since.take() {
            self.active_left = self.active_left.saturating_sub(since.elapsed());
        }
    }

    /// Hands the answers to the guest, which has a slot again.
    fn go_on(&mut self, open: Open, permit: Permit) {
        self.permit = Some(permit);
        self.active_since = Some(Instant::now());
        let _ = open.reply.send(open.answers.unwrap_or(Err(wit_call::InputError::Cancelled)));
    }

    fn signal(&mut self, signal: Signal) -> Option<Outcome> {
        let answers = match signal {
            Signal::Answers(answers) => Ok(answers),
            Signal::TimedOut => Err(wit_call::InputError::TimedOut),
            Signal::Cancel => return self.cancel(),
            Signal::Stop(end) => return Some(Outcome::Stopped(end)),
        };
        if let Some(open) = &mut self.open {
            open.answers = Some(answers);
            let (runs, plugin) = (self.runs.clone(), self.run.tool.plugin.clone());
            self.admit = Some(Box::pin(async move { runs.slots.readmit(&plugin).await }));
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
            self.grace_until = Some(Instant::now() + policy(&self.run).grace.duration());
        }
        // A guest that waits is told at once; it cleans up without a slot, within its grace.
        if let Some(open) = self.open.take() {
            self.admit = None;
            self.active_since = Some(Instant::now());
            let _ = open.reply.send(Err(wit_call::InputError::Cancelled));
        }
        None
    }

    async fn timer(&mut self) -> Option<Outcome> {
        let now = Instant::now();
        if self.grace_until.is_some_and(|at| at <= now) {
            return Some(Outcome::Cancelled);
        }
        if self.active_since.is_some_and(|since| since + self.active_left <= now) {
            let limit = self.run.tool.plugin.policy.limits.active_time;
            return Some(Outcome::of(
                &self.run,
                Err(Abort::Limit {
                    name: "active-time",
                    value: limit.to_string(),
                    advice: "Give it less to do in one call, or split the call.".into(),
                }),
            ));
        }
        if self.deadline.is_some_and(|at| at <= now) {
            return self.past_deadline().await;
        }
        None
    }

    /// The response can be held open no longer.
    async fn past_deadline(&mut self) -> Option<Outcome> {
        let call = policy(&self.run);
        let (hold, tasks) = (self.started + call.hold.duration(), self.run.client.tasks);
        if tasks && self.grace_until.is_none() {
            let promoted = match self.held {
                Some(_) => self.reveal().await,
                None => self.promote(Vec::new()).await,
            };
            return match promoted {
                Ok(()) => None,
                // No task can be made now (no space, too many): the response is held as for a
                // client without tasks, so that the work is not lost.
                Err(fault) if hold > Instant::now() => {
                    tracing::warn!(tool = %self.run.tool.name, "cannot promote, holding the call: {fault}");
                    self.deadline = Some(hold);
                    None
                }
                Err(fault) => Some(Outcome::Error(fault)),
            };
        }
        let fault = Fault::tasks_required(format!(
            "The tool {:?} did not end within {} (call.hold). Declare the io.modelcontextprotocol/tasks \
             extension, and a call that takes long becomes a task.",
            self.run.tool.name, call.hold
        ));
        self.answer(Answer::Error(fault));
        // A keyed run goes on: its outcome is kept for a repeat of the key.
        if self.held.is_some() { None } else { self.cancel() }
    }

    /// Makes the run a task: its row is committed before the handle leaves (P1).
    async fn promote(&mut self, questions: Vec<store::Question>) -> Result<(), Fault> {
        let active = self.active_since.map_or(Duration::ZERO, |since| since.elapsed());
        let new = new_task(&self.run, questions, Millis::from(self.active_left.saturating_sub(active)));
        let (held, task) = self.runs.tasks.create(new).await?;
        self.held = Some(held);
        self.handed_out(task);
        Ok(())
    }

    /// Hands out the task of a keyed run.
    async fn reveal(&mut self) -> Result<(), Fault> {
        if !self.revealed
            && let Some(held) = &self.held
        {
            let task = self.runs.tasks.reveal(held.id).await?;
            self.handed_out(task);
        }
        Ok(())
    }

    fn handed_out(&mut self, task: store::Task) {
        self.revealed = true;
        self.run.close_outlet();
        self.answer(Answer::Task(Box::new(task)));
    }

    fn answer(&mut self, answer: Answer) {
        self.deadline = None;
        if let Some(reply) = self.reply.take() {
            // The client may have left: the task, if there is one, is driven all the same.
            let _ = reply.send(answer);
        }
    }

    /// Stops the guest, then settles, then answers, in this order (P5: what is `cancelled` has stopped).
    async fn finish(&mut self, outcome: Outcome) {
        self.guest = None;
        self.permit = None;
        self.open = None;
        self.admit = None;
        let Some(held) = self.held.take() else {
            return self.answer(outcome.into_answer());
        };
        match self.runs.tasks.settle(&held, outcome.end()).await {
            Ok(_) => self.answer(outcome.into_answer()),
            Err(fault) => {
                tracing::error!(task = %held.id, "the outcome of a task could not be kept: {fault}");
                self.answer(Answer::Error(fault));
            }
        }
    }
}

pub(super) fn policy(run: &Run) -> &CallPolicy {
    run.tool.plugin.policy.call_of(&run.tool.own_name)
}

/// What a run says of itself when it becomes a task.
pub(super) fn new_task(run: &Run, questions: Vec<store::Question>, active_time: Millis) -> NewTask {
    NewTask {
        id: TaskId::new(),
        principal: run.principal.clone(),
        tool: run.tool.name.clone(),
        plugin: run.tool.plugin.name.clone(),
        digest: run.tool.plugin.digest,
        call: policy(run).clone(),
        active_time,
        status_message: run.take_message(),
        questions,
        key: None,
    }
}

impl Outcome {
    /// How a task ends with this.
    fn end(&self) -> End {
        match self {
            Self::Result(result) => match serde_json::to_value(result) {
                Ok(value) => End::Completed(value),
                Err(e) => {
                    End::Failed(Fault::internal("host_failure", format!("unwritable result: {e}")).to_json())
                }
            },
            Self::Error(fault) => End::Failed(fault.to_json()),
            Self::Cancelled => End::Cancelled,
            Self::Stopped(end) => end.clone(),
        }
    }
}
