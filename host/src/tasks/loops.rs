//! What this process does by itself: renew its lease, look after deadlines and what other processes
//! asked, end what dead processes left, write progress, sweep.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::StreamExt as _;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Event, Inner, faults, registry::Due};
use crate::{
    base::{Millis, UnixMillis},
    config::TaskRules,
    store::{End, Hint, Status, StoreError, Task, Updated},
};

/// Starts every loop; each ends with `end`, and `tracker` joins it.
pub(super) fn start(inner: &Arc<Inner>, end: &CancellationToken, tracker: &TaskTracker) {
    let third = Millis((inner.settings.lease.0 / 3).max(1));
    let every = |period: Millis| ticks(period.duration());
    let (me, token, mut tick) = (inner.clone(), end.clone(), every(third));
    tracker.spawn(async move {
        while next(&mut tick, &token).await {
            me.heartbeat(&token).await;
        }
    });
    let (me, token, mut tick) = (inner.clone(), end.clone(), every(TaskRules::ATTENTION));
    tracker.spawn(async move {
        while next(&mut tick, &token).await {
            me.clock.agree().await;
            log("looking after deadlines and requests", me.attend().await);
            log("looking after tasks that are nobody's", me.attend_to_nobodys().await);
            log("ending tasks of revoked components", me.end_condemned().await);
            me.polls.tidy();
        }
    });
    let (me, token, mut hints) = (inner.clone(), end.clone(), inner.store.hints());
    tracker.spawn(async move {
        while let Some(Some(hint)) = token.run_until_cancelled(hints.next()).await {
            log("following a hint", me.follow(hint).await);
        }
    });
    let (me, token, mut tick) = (inner.clone(), end.clone(), every(TaskRules::ORPHANS));
    tracker.spawn(async move {
        while next(&mut tick, &token).await {
            log("ending tasks of dead processes", me.end_orphans().await);
            log("counting live tasks", me.store.count_live().await.map(|n| me.live.set(n)));
        }
    });
    let (me, token, mut tick) = (inner.clone(), end.clone(), every(TaskRules::PROGRESS));
    tracker.spawn(async move {
        while next(&mut tick, &token).await {
            me.write_progress(false).await;
        }
    });
    let (me, token, mut tick) = (inner.clone(), end.clone(), every(TaskRules::SWEEP));
    tracker.spawn(async move {
        while next(&mut tick, &token).await {
            log("sweeping expired tasks", me.sweep().await);
        }
    });
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// False once the loops are to end. Work that has begun is finished first.
async fn next(tick: &mut tokio::time::Interval, end: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = end.cancelled() => false,
        _ = tick.tick() => true,
    }
}

/// A loop goes on after a failure: the next round tries again.
fn log<T>(what: &str, result: Result<T, StoreError>) {
    if let Err(e) = result {
        tracing::warn!(error = %e, "{what} failed; trying again");
    }
}

impl Inner {
    async fn heartbeat(&self, end: &CancellationToken) {
        // After a long stop (suspended, SIGSTOP) others may have taken our tasks: our runs stop first.
        if !self.has_lease() {
            self.lapses.fetch_add(1, Ordering::AcqRel);
            // Said once, however long the store is away.
            if !self.lapsed.swap(true, Ordering::Relaxed) {
                tracing::error!("the lease of this process has run out: its runs stop");
            }
            self.registry.unleased(&faults::interrupted());
        }
        // A disk without space for some seconds must not cost the runs: tried again within the lease.
        while let Err(e) = self.beat().await {
            tracing::warn!(error = %e, "renewing the lease failed; trying again");
            tokio::select! {
                () = end.cancelled() => return,
                () = tokio::time::sleep(TaskRules::BEAT_RETRY.duration()) => {}
            }
            if !self.has_lease() {
                return;
            }
        }
        if self.lapsed.swap(false, Ordering::Relaxed) {
            tracing::info!("this process has a lease again");
        }
    }

    /// One look at the live tasks of this process.
    pub(super) async fn attend(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        for task in self.store.attention(self.boot, now).await? {
            if self.registry.has(task.id) {
                self.attend_to(&task, now).await?;
            } else {
                self.leave(&task).await?;
            }
        }
        for (id, fence) in self.registry.left() {
            if let Some(task) = self.store.get(id).await?
                && task.holder == Some(self.boot)
                && task.fence == fence
            {
                tracing::warn!(task = %id, "a run has gone without an end");
                self.leave(&task).await?;
            }
            self.registry.remove_held(id, fence);
        }
        Ok(())
    }

    /// Looks now at what another process has committed, and not only at the next tick.
    async fn follow(&self, hint: Hint) -> Result<(), StoreError> {
        match hint {
            Hint::Task(id) if self.registry.has(id) => match self.store.get(id).await? {
                Some(task) if task.holder == Some(self.boot) => self.attend_to(&task, self.clock.now()).await,
                _ => Ok(()),
            },
            Hint::Task(_) => Ok(()),
            Hint::Resumable => {
                self.resume.notify_one();
                Ok(())
            }
            Hint::Any => {
                self.resume.notify_one();
                self.attend().await
            }
        }
    }

    /// A task of this process without a run: others may go on with it, or it ends.
    async fn leave(&self, task: &Task) -> Result<(), StoreError> {
        if task.cancel_requested.is_some() || !task.is_resumable() {
            return self.abandon(task, faults::end_of_left(task)).await;
        }
        let retry_at = Some(self.clock.now() + TaskRules::LEFT_RETRY);
        let event = Event::HandBack { fence: task.fence, retry_at, ordered: false };
        self.apply(task.id, event).await.map(|_| ())
    }

    /// Tasks without a holder, of whichever process looks first.
    pub(super) async fn attend_to_nobodys(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let due = self.store.unattended(now).await?;
        let moves = due.iter().map(|task| async move {
            if task.cancel_requested.is_some() {
                self.abandon(task, End::Cancelled).await
            } else if task.expires_at() <= now {
                self.abandon(task, faults::expired_at_work(task)).await
            } else if task.resume_on_timeout {
                let poll_interval = self.rhythm.working(&task.tool);
                let event = Event::TimeOut { fence: task.fence, poll_interval };
                self.apply(task.id, event).await.map(|_| ())
            } else {
                self.abandon(task, faults::input_timed_out(task)).await
            }
        });
        futures::future::try_join_all(moves).await.map(|_| ())
    }

    /// Tasks without a holder that would go on with a component that is revoked. Those with one, its driver ends.
    pub(super) async fn end_condemned(&self) -> Result<(), StoreError> {
        // Whatever is left is found at the next look.
        for _ in 0..TaskRules::CONDEMNED_STEPS {
            let condemned = self.store.condemned(TaskRules::CONDEMNED_STEP).await?;
            if condemned.is_empty() {
                return Ok(());
            }
            tracing::warn!(
                tasks = condemned.len(),
                "ending tasks that wait, because their components are revoked"
            );
            let moves = condemned.iter().map(|task| async move {
                let end =
                    if task.cancel_requested.is_some() { End::Cancelled } else { faults::revoked(task) };
                self.abandon(task, end).await
            });
            futures::future::try_join_all(moves).await?;
        }
        Ok(())
    }

    async fn attend_to(&self, task: &Task, now: UnixMillis) -> Result<(), StoreError> {
        if task.cancel_requested.is_some() {
            self.registry.cancel(task.id);
        }
        if task.expires_at() <= now {
            self.registry.stop(task.id, faults::expired_at_work(task));
        } else if task.status == Status::InputRequired && task.input_deadline.is_some_and(|d| d <= now) {
            if !task.resume_on_timeout {
                self.registry.stop(task.id, faults::input_timed_out(task));
                return Ok(());
            }
            let poll_interval = self.rhythm.working(&task.tool);
            let event = Event::TimeOut { fence: task.fence, poll_interval };
            if let Updated::Done(task) = self.apply(task.id, event).await? {
                self.registry.timed_out(&task);
            }
        } else if self.registry.is_new_round(task) {
            // Another process took the answers.
            self.changed(task);
        }
        Ok(())
    }

    /// Writes the progress that is due, or all of it.
    pub(super) async fn write_progress(&self, all: bool) {
        let due = self.registry.due(all, |tool| self.rhythm.working(tool));
        let writes = due.into_iter().map(|Due { id, fence, message }| async move {
            log("writing progress", self.apply(id, Event::Progress { fence, message }).await);
        });
        futures::future::join_all(writes).await;
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let tombstones_before = UnixMillis(now.0.saturating_sub(self.settings.tombstones.0));
        let gone = self.store.sweep(now, tombstones_before).await?;
        if gone > 0 {
            tracing::debug!(tasks = gone, "swept expired tasks");
        }
        Ok(())
    }
}
