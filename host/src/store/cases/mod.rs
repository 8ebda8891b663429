#![allow(clippy::unwrap_used, clippy::expect_used)]
//! What holds of every store, whatever database is behind it: each case runs against each.

mod resume;
mod rows;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::json;
use uuid::Uuid;

use crate::{
    base::{BootId, Digest, Millis, UnixMillis},
    config::StoreConfig,
    store::{End, IdempotencyKey, Question, QuestionKind, Refused, Status, Store, Task},
};

pub(super) use self::{resume::*, rows::*};

/// A place for one database, on which a case opens any number of stores.
pub(super) trait Ground: Send + Sync {
    /// Another process's store on it.
    fn open<'a>(&'a self, config: &'a StoreConfig) -> BoxFuture<'a, Arc<dyn Store>>;
    /// True where all processes are on one machine, and leases go by its boots.
    fn is_one_machine(&self) -> bool;
    /// Rows of `blobs`.
    fn blobs(&self) -> BoxFuture<'_, i64>;
}

/// One test of each case, on the ground that the expression makes.
macro_rules! each_case {
    ($ground:expr) => {
        $crate::store::cases::each_case! { @ $ground;
            rows_come_back_as_they_went_in
            a_batch_keeps_order_and_spares_the_others_a_bad_row
            one_key_makes_one_task_until_its_time_is_over
            attention_goes_to_those_who_need_it
            only_the_dead_leave_orphans
            the_expired_leave_tombstones_for_a_while
            plugins_and_their_bytes
            what_is_revoked_is_known_and_what_waits_on_it_is_found
            several_stores_share_a_database
            a_remembered_task_is_read_again_once_another_process_has_written
            batches_of_every_size_are_written_whole
            a_journal_grows_with_its_task_or_not_at_all
            large_answers_are_kept_beside_their_piece
            only_what_can_go_on_is_resumable
            what_asks_hidden_is_counted
            who_resumes_one_alone_is_known
            the_oldest_go_on_first
            what_is_nobodys_is_looked_after
        }
    };
    (@ $ground:expr; $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let ground = $ground.await;
                $crate::store::cases::$case(&ground).await;
            }
        )*
    };
}
pub(super) use each_case;

pub(super) async fn open(ground: &dyn Ground) -> Arc<dyn Store> {
    ground.open(&StoreConfig::default()).await
}

/// How many tasks live.
pub(super) async fn live(store: &Arc<dyn Store>) -> u64 {
    store.count_live().await.unwrap().iter().map(|(_, n)| n).sum()
}

pub(super) fn task(n: u64) -> Task {
    Task {
        status_message: Some("one\0two".into()),
        created_at: UnixMillis(1000 + n),
        updated_at: UnixMillis(1000 + n),
        ttl: Millis(5000),
        poll_interval: Millis(1000),
        active_left: Millis(700),
        absence: Millis(300),
        holder: Some(BootId(Uuid::from_u128(7))),
        ..Task::blank()
    }
}

pub(super) fn question(key: &str, round: u32) -> Question {
    let request = json!({"method": "elicitation/create", "params": {"message": "line\nbreak \u{0} \"x\" ü"}});
    Question { key: key.into(), round, kind: QuestionKind::Form, request: Arc::new(request), answer: None }
}

pub(super) fn asking(n: u64) -> Task {
    Task {
        status: Status::InputRequired,
        input_deadline: Some(UnixMillis(3000)),
        questions: vec![question("a b", 0), question("c\nd", 0)],
        ..task(n)
    }
}

pub(super) fn keyed(n: u64, key: &str) -> Task {
    Task { key: Some(IdempotencyKey { key: key.into(), arguments: Digest::of(b"a") }), ..task(n) }
}

pub(super) fn end(mut t: Task) -> Result<Task, Refused> {
    if t.end.is_some() {
        return Err(Refused::Ended);
    }
    t.status = Status::Completed;
    t.end = Some(End::Completed(json!({"content": []})));
    t.holder = None;
    Ok(t)
}
