#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The same things done to a store on SQLite and to one on PostgreSQL: the same answers.

use std::sync::Arc;

use futures::future::BoxFuture;
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use super::{
    Answer, Change, End, Except, Lease, PluginRow, PostgresStore, Refused, Revoked, SqliteStore, Status,
    Store, Task,
    cases::{asking, keyed, question, task},
    os_boot_id,
    postgres::tests::Database,
};
use crate::{
    base::{Blob, BootId, Digest, Millis, Piece, Principal, TaskId, UnixMillis, boottime_ms},
    config::StoreConfig,
};

const fn boot(n: u8) -> BootId {
    BootId(Uuid::from_u128(n as u128))
}

/// A change of a task, as a number says; some are refused.
#[derive(Clone, Copy, Debug)]
enum Move {
    Answer,
    Ask,
    Park,
    Sleep,
    Claim(u8),
    Cancel,
    Pin,
    End,
    Refuse,
    Keep,
}

#[derive(Clone, Debug)]
enum Op {
    Insert { asks: bool, holder: Option<u8>, pieces: u8, born: u64 },
    Admit { key: u8, born: u64, pieces: u8 },
    Update { which: usize, what: Move, pieces: u8 },
    Get(usize),
    Journal(usize),
    ByKey(u8),
    Tombstone(usize),
    List(u32),
    Attention(u8, u64),
    Resumable(u64, u32),
    Unattended(u64),
    Orphans(u8),
    Leased(u8),
    Alone,
    Heartbeat(u8, bool),
    Release(u8),
    CountLive,
    CountHidden(bool, u32),
    Digests,
    Sweep(u64),
    PutPlugin(u8),
    DropPlugin(u8),
    Plugins,
    Revoke(u8, u64),
    Unrevoke(u8),
    Revoked,
    Condemned,
    Secret(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let which = || 0_usize..30;
    let now = || prop::sample::select(vec![0_u64, 1500, 2000, 3500, 5999, 6500, 20_000]);
    let pieces = || 0_u8..3;
    let who = || 6_u8..9;
    let what = prop_oneof![
        3 => Just(Move::Answer),
        2 => Just(Move::Ask),
        2 => Just(Move::Park),
        2 => Just(Move::Sleep),
        3 => who().prop_map(Move::Claim),
        1 => Just(Move::Cancel),
        1 => Just(Move::Pin),
        1 => Just(Move::End),
        1 => Just(Move::Refuse),
        1 => Just(Move::Keep),
    ];
    prop_oneof![
        8 => (any::<bool>(), prop::option::of(who()), pieces(), 0..500_u64)
            .prop_map(|(asks, holder, pieces, born)| Op::Insert { asks, holder, pieces, born }),
        4 => (0_u8..4, now(), pieces()).prop_map(|(key, born, pieces)| Op::Admit { key, born, pieces }),
        16 => (which(), what, pieces()).prop_map(|(which, what, pieces)| Op::Update { which, what, pieces }),
        3 => which().prop_map(Op::Get),
        3 => which().prop_map(Op::Journal),
        1 => (0_u8..4).prop_map(Op::ByKey),
        1 => which().prop_map(Op::Tombstone),
        1 => (0_u32..40).prop_map(Op::List),
        2 => (who(), now()).prop_map(|(who, now)| Op::Attention(who, now)),
        3 => (now(), 0_u32..20).prop_map(|(now, limit)| Op::Resumable(now, limit)),
        2 => now().prop_map(Op::Unattended),
        2 => who().prop_map(Op::Orphans),
        1 => who().prop_map(Op::Leased),
        1 => Just(Op::Alone),
        1 => (who(), any::<bool>()).prop_map(|(who, lives)| Op::Heartbeat(who, lives)),
        1 => who().prop_map(Op::Release),
        1 => Just(Op::CountLive),
        1 => (any::<bool>(), 0_u32..4).prop_map(|(all, most)| Op::CountHidden(all, most)),
        1 => Just(Op::Digests),
        1 => now().prop_map(Op::Sweep),
        1 => (0_u8..3).prop_map(Op::PutPlugin),
        1 => (0_u8..3).prop_map(Op::DropPlugin),
        1 => Just(Op::Plugins),
        1 => (0_u8..3, now()).prop_map(|(which, at)| Op::Revoke(which, at)),
        1 => (0_u8..3).prop_map(Op::Unrevoke),
        1 => Just(Op::Revoked),
        2 => Just(Op::Condemned),
        1 => (0_u8..2).prop_map(Op::Secret),
    ]
}

fn change(what: Move) -> Change {
    Box::new(move |mut t: Task| {
        if t.end.is_some() {
            return Err(Refused::Ended);
        }
        match what {
            Move::Answer => {
                let open = t.questions.iter_mut().find(|q| q.answer.is_none()).ok_or(Refused::Unchanged)?;
                open.answer = Some(Answer::Accepted(json!({"\u{0}": [1.5, null]})));
                t.status = Status::Working;
                t.input_deadline = None;
            }
            Move::Ask => {
                t.questions.push(question(&format!("q{}", t.questions.len()), 3));
                t.status = Status::InputRequired;
                t.input_deadline = Some(UnixMillis(3000));
            }
            Move::Park => (t.holder, t.parked_at) = (None, Some(UnixMillis(1700))),
            Move::Sleep => {
                (t.holder, t.wake_at, t.parked_at) = (None, Some(UnixMillis(2000)), Some(UnixMillis(1700)));
            }
            Move::Claim(who) => {
                (t.holder, t.wake_at, t.parked_at) = (Some(boot(who)), None, None);
                t.fence += 1;
                t.attempts += 1;
                t.resumed += 1;
                t.parked_ms = t.parked_ms + Millis(300);
            }
            Move::Cancel => t.cancel_requested = Some(UnixMillis(1600)),
            Move::Pin => t.pinned = Some("it \0 wrote".into()),
            Move::End => {
                t.status = Status::Failed;
                t.end = Some(End::Failed(json!({"code": -1})));
                (t.holder, t.input_deadline, t.wake_at) = (None, None, None);
            }
            Move::Refuse => return Err(Refused::NotNow("for a test")),
            Move::Keep => {}
        }
        Ok(t)
    })
}

fn pieces(n: u8) -> Vec<Piece> {
    (0..n)
        .map(|i| Piece {
            bytes: vec![i, 0, n],
            // At most one in a piece: they have no order.
            blobs: (i == 1).then(|| Blob::of(vec![n; 1000])).into_iter().collect(),
        })
        .collect()
}

/// Ids of the tasks so far, to choose from.
#[derive(Default)]
struct Ids(Vec<TaskId>);

impl Ids {
    fn get(&self, which: usize) -> TaskId {
        self.0.get(which % self.0.len().max(1)).copied().unwrap_or_else(|| TaskId(Uuid::from_u128(1)))
    }
}

/// One that tasks have, one that plugins have, and one that nobody has.
fn component(which: u8) -> Digest {
    [task(0).digest, Digest::of(&[1]), Digest([7; 32])][usize::from(which)]
}

/// The answer of one store, as text. Where rows have no order of their own, in order of their text.
fn ask<'a>(store: &'a dyn Store, op: &'a Op, new: &'a Task, ids: &'a Ids) -> BoxFuture<'a, String> {
    fn sorted<T: std::fmt::Debug, E: std::fmt::Debug>(rows: Result<Vec<T>, E>) -> String {
        let mut rows: Vec<String> = rows.unwrap().iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        rows.join("\n")
    }
    let at = UnixMillis;
    Box::pin(async move {
        match op {
            Op::Insert { pieces: n, .. } => format!("{:?}", store.insert(new.clone(), pieces(*n)).await),
            Op::Admit { pieces: n, .. } => format!("{:?}", store.admit(new.clone(), pieces(*n)).await),
            Op::Update { which, what, pieces: n } => {
                format!("{:?}", store.update(ids.get(*which), change(*what), pieces(*n)).await)
            }
            Op::Get(which) => format!("{:?}", store.get(ids.get(*which)).await),
            Op::Journal(which) => format!("{:?}", store.journal(ids.get(*which)).await),
            Op::ByKey(key) => {
                format!("{:?}", store.by_key(Principal::local(), "t".into(), format!("k{key}")).await)
            }
            Op::Tombstone(which) => format!("{:?}", store.tombstone(ids.get(*which)).await),
            Op::List(limit) => format!("{:?}", store.list(Some(Principal::local()), *limit).await),
            Op::Attention(who, now) => sorted(store.attention(boot(*who), at(*now)).await),
            Op::Resumable(now, limit) => {
                format!("{:?}", store.resumable(at(*now), Except::default(), *limit).await)
            }
            Op::Unattended(now) => sorted(store.unattended(at(*now)).await),
            Op::Orphans(me) => sorted(store.orphans(boot(*me)).await),
            Op::Alone => sorted(store.alone().await),
            Op::Leased(who) => format!("{:?}", store.leased(boot(*who)).await),
            Op::Heartbeat(who, lives) => {
                let until_boottime_ms = if *lives { boottime_ms() + 600_000 } else { boottime_ms() - 10_000 };
                let lease = Lease { boot: boot(*who), os_boot: os_boot_id().unwrap(), until_boottime_ms };
                format!("{:?}", store.heartbeat(lease).await)
            }
            Op::Release(who) => format!("{:?}", store.release(boot(*who)).await),
            Op::CountLive => format!("{:?}", store.count_live().await),
            Op::CountHidden(all, most) => {
                let of = (!all).then(Principal::local);
                format!("{:?}", store.count_hidden(of, *most).await)
            }
            Op::Digests => sorted(store.digests_in_use().await),
            Op::Sweep(now) => format!("{:?}", store.sweep(at(*now), at(now / 2)).await),
            Op::PutPlugin(n) => {
                let row = PluginRow {
                    name: format!("p{n}"),
                    digest: Some(Digest::of(&[*n])),
                    tools: vec![format!("tool\0{n}")],
                    listed: "[]".into(),
                    refusal: Some("\0".into()),
                    ..PluginRow::default()
                };
                format!("{:?}", store.put_plugin(row).await)
            }
            Op::DropPlugin(n) => format!("{:?}", store.drop_plugin(format!("p{n}")).await),
            Op::Plugins => format!("{:?}", store.plugins().await),
            Op::Revoke(which, now) => {
                let reason = (*now > 2000).then(|| "it \0 leaks".to_owned());
                let revoked = Revoked { digest: component(*which), at: at(*now), reason };
                format!("{:?}", store.revoke(revoked).await)
            }
            Op::Unrevoke(which) => format!("{:?}", store.unrevoke(component(*which)).await),
            Op::Revoked => format!("{:?}", store.revoked().await),
            Op::Condemned => sorted(store.condemned(u32::MAX).await),
            Op::Secret(n) => {
                let name = if *n == 0 { "one" } else { "two" };
                format!("{:?}", store.secret(name, new.id.0.as_bytes().to_vec()).await)
            }
        }
    })
}

/// The task that an operation adds.
fn new_task(op: &Op) -> Task {
    match op {
        Op::Insert { asks, holder, born, .. } => {
            let t = if *asks { asking(*born) } else { task(*born) };
            let parked_at = holder.is_none().then_some(UnixMillis(1600));
            Task { holder: holder.map(boot), parked_at, ..t }
        }
        Op::Admit { key, born, .. } => keyed(*born, &format!("k{key}")),
        _ => task(0),
    }
}

#[test]
fn both_databases_give_the_same_answers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = TempDir::new().unwrap();
    let config = StoreConfig::default();
    // One database for all sequences: each begins with what those before have left, the same in both.
    let (sqlite, postgres): (Arc<dyn Store>, Arc<dyn Store>) = runtime.block_on(async {
        let database = Database::new().await;
        let sqlite = SqliteStore::open(dir.path(), &config).await.unwrap();
        (sqlite, PostgresStore::open(&database.url, uuid::Uuid::nil(), &config).await.unwrap())
    });
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 60,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let same = |ops: Vec<Op>| {
        let mut ids = Ids::default();
        for (n, op) in ops.iter().enumerate() {
            let new = new_task(op);
            let (one, other) = runtime.block_on(async {
                futures::future::join(ask(&*sqlite, op, &new, &ids), ask(&*postgres, op, &new, &ids)).await
            });
            prop_assert_eq!(one, other, "operation {}: {:?}", n, op);
            if matches!(op, Op::Insert { .. } | Op::Admit { .. }) {
                ids.0.push(new.id);
            }
        }
        Ok(())
    };
    runner.run(&vec(op(), 20..60), same).unwrap();
    runtime.block_on(async {
        sqlite.close().await;
        postgres.close().await;
    });
}
