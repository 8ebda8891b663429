//! Rows, keys, leases, sweeping, batches.

use serde_json::json;
use uuid::Uuid;

use super::{Ground, asking, end, keyed, live, open, question, task};
use crate::{
    base::{BootId, Digest, Millis, Principal, TaskId, UnixMillis, boottime_ms},
    config::StoreConfig,
    store::{
        Admitted, Answer, IdempotencyKey, Lease, PluginRow, Refused, Revoked, Status, StoreError, Task,
        Updated, os_boot_id,
    },
};

pub(in crate::store) async fn rows_come_back_as_they_went_in(ground: &dyn Ground) {
    let store = open(ground).await;
    let mut full = asking(1);
    full.key = Some(IdempotencyKey { key: "k\0ey".into(), arguments: Digest::of(b"x") });
    full.cancel_requested = Some(UnixMillis(1500));
    full.resume_on_timeout = true;
    full.revealed = false;
    full.ttl = Millis(u64::MAX >> 1);
    full.questions[0].answer = Some(Answer::Accepted(json!({"a": 1.5, "b": "\u{0}"})));
    full.questions[1].answer = Some(Answer::Declined);
    full.pinned = Some("it \0 wrote".into());
    full.wake_at = Some(UnixMillis(1600));
    full.attempts = 2;
    full.replayed = 1 << 40;
    full.retry_at = Some(UnixMillis(1700));
    full.resumed = 3;
    full.parked_ms = Millis(1 << 40);
    full.parked_at = Some(UnixMillis(1800));
    store.insert(full.clone(), Vec::new()).await.unwrap();
    assert_eq!(store.get(full.id).await.unwrap(), Some(full.clone()));
    let ended = match store.update(full.id, Box::new(end), Vec::new()).await.unwrap() {
        Updated::Done(t) => t,
        other => panic!("{other:?}"),
    };
    assert_eq!(store.get(full.id).await.unwrap(), Some(ended.clone()));
    // Terminal is final, and an unknown id is no error.
    match store.update(full.id, Box::new(end), Vec::new()).await.unwrap() {
        Updated::Refused(Refused::Ended, t) => assert_eq!(t, ended),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        store.update(TaskId::new(), Box::new(end), Vec::new()).await.unwrap(),
        Updated::Unknown
    ));
    store.close().await;
    assert!(matches!(store.insert(task(2), Vec::new()).await, Err(StoreError::Closed)));
    // Another start finds it all.
    let store = open(ground).await;
    assert_eq!(store.list(Some(Principal::local()), 10).await.unwrap(), vec![ended]);
    assert_eq!(store.list(Some(Principal::operator()), 10).await.unwrap(), vec![]);
}

pub(in crate::store) async fn a_batch_keeps_order_and_spares_the_others_a_bad_row(ground: &dyn Ground) {
    let store = open(ground).await;
    let first = asking(0);
    store.insert(first.clone(), Vec::new()).await.unwrap();
    let tasks: Vec<Task> = (1..100).map(asking).collect();
    // The same id twice is a bug of the caller's; only it fails.
    let bad = store.insert(first.clone(), Vec::new());
    let good = futures::future::join_all(tasks.iter().map(|t| store.insert(t.clone(), Vec::new())));
    let answers = futures::future::join_all(tasks.iter().map(|t| {
        store.update(
            t.id,
            Box::new(|mut t| {
                t.questions[1].answer = Some(Answer::Dismissed);
                t.questions.push(question("later", 1));
                Ok(t)
            }),
            Vec::new(),
        )
    }));
    let panics = store.update(first.id, Box::new(|_| panic!("a bug")), Vec::new());
    let (bad, good, answers, panics) = tokio::join!(bad, good, answers, panics);
    assert!(matches!(bad, Err(StoreError::Other(_))), "{bad:?}");
    assert!(matches!(panics, Err(StoreError::Other(_))), "{panics:?}");
    assert!(good.iter().all(Result::is_ok));
    for (task, answered) in tasks.iter().zip(answers) {
        let Updated::Done(answered) = answered.unwrap() else { panic!("not done") };
        assert_eq!(answered.questions.len(), 3);
        assert_eq!(store.get(task.id).await.unwrap(), Some(answered));
    }
    let listed = store.list(None, 1000).await.unwrap();
    assert_eq!(listed.len(), 100);
    assert_eq!(listed[0].id, tasks[98].id);
    assert_eq!(live(&store).await, 100);
}

pub(in crate::store) async fn what_asks_hidden_is_counted(ground: &dyn Ground) {
    let store = open(ground).await;
    let hide = |task: Task| Task { revealed: false, ..task };
    let other = |task: Task| Task { principal: Principal::operator(), ..task };
    let (ends, shown) = (hide(asking(4)), hide(asking(5)));
    let all = [
        hide(asking(1)),
        hide(asking(2)),
        other(hide(asking(3))),
        ends.clone(),
        shown.clone(),
        asking(6),
        hide(task(7)),
    ];
    for task in all {
        store.insert(task, Vec::new()).await.unwrap();
    }
    let reveal = |task: Task| Ok(Task { revealed: true, ..task });
    store.update(shown.id, Box::new(reveal), Vec::new()).await.unwrap();
    store.update(ends.id, Box::new(end), Vec::new()).await.unwrap();
    let count = async |of, most| store.count_hidden(of, most).await.unwrap();
    assert_eq!([count(None, 100).await, count(Some(Principal::local()), 100).await], [3, 2]);
    assert_eq!([count(None, 2).await, count(Some(Principal::local()), 1).await], [2, 1]);
}

pub(in crate::store) async fn one_key_makes_one_task_until_its_time_is_over(ground: &dyn Ground) {
    let store = open(ground).await;
    let repeats: Vec<Task> = (0..100).map(|n| keyed(n, "k")).collect();
    let admitted =
        futures::future::join_all(repeats.iter().map(|t| store.admit(t.clone(), Vec::new()))).await;
    let fresh: Vec<usize> = (0..100).filter(|i| matches!(admitted[*i], Ok(Admitted::Fresh))).collect();
    assert_eq!(fresh.len(), 1);
    let first = &repeats[fresh[0]];
    for a in admitted.into_iter().flatten() {
        if let Admitted::Exists(there) = a {
            assert_eq!(there.id, first.id);
        }
    }
    let other = Task { principal: Principal::operator(), ..keyed(1, "k") };
    assert!(matches!(store.admit(other, Vec::new()).await, Ok(Admitted::Fresh)));
    // Ended, but within its TTL, it still answers; after that the key is free.
    store.update(first.id, Box::new(end), Vec::new()).await.unwrap();
    assert!(matches!(store.admit(keyed(4000, "k"), Vec::new()).await, Ok(Admitted::Exists(_))));
    assert!(matches!(store.admit(keyed(9000, "k"), Vec::new()).await, Ok(Admitted::Fresh)));
    assert_eq!(store.get(first.id).await.unwrap(), None);
    assert_eq!(store.tombstone(first.id).await.unwrap().unwrap().status, Status::Completed);
}

pub(in crate::store) async fn attention_goes_to_those_who_need_it(ground: &dyn Ground) {
    let store = open(ground).await;
    let me = BootId(Uuid::from_u128(7));
    let quiet = Task { ttl: Millis(1 << 40), ..task(1) };
    let waiting = Task { ttl: Millis(1 << 40), ..asking(2) };
    let cancelled = Task { cancel_requested: Some(UnixMillis(1)), ..quiet.clone() };
    let answered = Task { status: Status::Working, input_deadline: None, ..waiting.clone() };
    for mut t in [quiet, waiting.clone(), cancelled.clone(), answered.clone(), task(3)] {
        if [waiting.id, cancelled.id, answered.id].contains(&t.id) && store.get(t.id).await.unwrap().is_some()
        {
            t.id = TaskId::new();
        }
        store.insert(t, Vec::new()).await.unwrap();
    }
    let count = |now| store.attention(me, UnixMillis(now));
    assert_eq!(count(2000).await.unwrap().len(), 2, "the cancelled and the answered one");
    assert_eq!(count(3000).await.unwrap().len(), 3, "and the one whose questions ran out");
    assert_eq!(count(6003).await.unwrap().len(), 4, "and the one whose TTL is over");
    assert!(store.attention(BootId(Uuid::from_u128(8)), UnixMillis(9000)).await.unwrap().is_empty());
}

pub(in crate::store) async fn only_the_dead_leave_orphans(ground: &dyn Ground) {
    let store = open(ground).await;
    let (me, holder) = (BootId(Uuid::from_u128(1)), BootId(Uuid::from_u128(7)));
    let os_boot = os_boot_id().unwrap();
    store.insert(task(1), Vec::new()).await.unwrap();
    let lease = |until_boottime_ms, os_boot| Lease { boot: holder, os_boot, until_boottime_ms };
    let takeover = StoreConfig::default().takeover.0;
    let cases = [
        (boottime_ms() + 60_000, os_boot, false),
        // Over, but its holder still has the time to notice.
        (boottime_ms() - takeover / 2, os_boot, false),
        (boottime_ms() - takeover - 1, os_boot, true),
        // On one machine: from before a reboot. Elsewhere: from another machine.
        (boottime_ms() + 60_000, Uuid::from_u128(9), ground.is_one_machine()),
    ];
    for (until, os_boot, orphaned) in cases {
        store.heartbeat(lease(until, os_boot)).await.unwrap();
        assert_eq!(store.orphans(me).await.unwrap().len(), usize::from(orphaned), "{until} {os_boot}");
        assert_eq!(store.leased(holder).await.unwrap(), !orphaned);
        assert!(store.orphans(holder).await.unwrap().is_empty(), "nobody is his own orphan");
    }
    store.heartbeat(lease(boottime_ms() + 60_000, os_boot)).await.unwrap();
    store.release(holder).await.unwrap();
    assert_eq!(store.orphans(me).await.unwrap().len(), 1);
}

pub(in crate::store) async fn the_expired_leave_tombstones_for_a_while(ground: &dyn Ground) {
    let store = open(ground).await;
    let tasks: Vec<Task> = (0..1100).map(|n| if n % 2 == 0 { asking(n) } else { task(n) }).collect();
    futures::future::join_all(tasks.iter().map(|t| store.insert(t.clone(), Vec::new()))).await;
    futures::future::join_all(tasks[..1050].iter().map(|t| store.update(t.id, Box::new(end), Vec::new())))
        .await;
    let now = UnixMillis(1000 + 5000 + 2000);
    assert_eq!(store.sweep(now, UnixMillis(0)).await.unwrap(), 1050, "live ones stay");
    assert_eq!(live(&store).await, 50);
    assert_eq!(store.get(tasks[0].id).await.unwrap(), None);
    let stone = store.tombstone(tasks[0].id).await.unwrap().unwrap();
    assert_eq!((stone.status, stone.expired_at), (Status::Completed, UnixMillis(6000)));
    assert_eq!(store.sweep(now, UnixMillis(6001)).await.unwrap(), 0);
    assert_eq!(store.tombstone(tasks[0].id).await.unwrap(), None);
    assert!(store.tombstone(tasks[1].id).await.unwrap().is_some());
}

pub(in crate::store) async fn plugins_and_their_bytes(ground: &dyn Ground) {
    let store = open(ground).await;
    let row = PluginRow {
        name: "p".into(),
        digest: Some(Digest::of(b"1")),
        granted: Some(Digest::of(b"0")),
        policy: "[limits]".into(),
        without_grants: true,
        tools: vec!["a".into(), "b".into()],
        prompts: vec!["c".into()],
        resources: vec!["d:e".into()],
        templates: vec!["d:{f}".into()],
        listed: "[]".into(),
        adopted_at: UnixMillis(5),
        refusal: Some("{}".into()),
    };
    let bare = PluginRow { name: "q".into(), ..PluginRow::default() };
    store.put_plugin(bare.clone()).await.unwrap();
    store.put_plugin(PluginRow { digest: None, ..row.clone() }).await.unwrap();
    store.put_plugin(row.clone()).await.unwrap();
    assert_eq!(store.plugins().await.unwrap(), vec![row, bare]);
    store.insert(task(1), Vec::new()).await.unwrap();
    let mut used = store.digests_in_use().await.unwrap();
    used.sort();
    let mut expected = vec![Digest::of(b"0"), Digest::of(b"1"), Digest::of(b"c")];
    expected.sort();
    assert_eq!(used, expected);
    // A name has one owner, of whatever kind the name is; whose it was may take it.
    let rival =
        |name: &str| PluginRow { name: name.into(), templates: vec!["d:{f}".into()], ..PluginRow::default() };
    assert_eq!(store.adopt_plugin(rival("r")).await.unwrap().unwrap().name, "p");
    assert_eq!(store.plugins().await.unwrap().len(), 2);
    let other_kind = PluginRow { prompts: vec!["a".into()], ..rival("q") };
    let other_kind = PluginRow { templates: Vec::new(), ..other_kind };
    assert_eq!(store.adopt_plugin(other_kind).await.unwrap(), None);
    assert_eq!(store.adopt_plugin(rival("p")).await.unwrap(), None);
    store.drop_plugin("p".into()).await.unwrap();
    assert_eq!(store.plugins().await.unwrap().len(), 1);
    assert_eq!(store.adopt_plugin(rival("r")).await.unwrap(), None);
}

pub(in crate::store) async fn what_is_revoked_is_known_and_what_waits_on_it_is_found(ground: &dyn Ground) {
    let (store, other) = (open(ground).await, open(ground).await);
    let (bad, worse) = (Digest::of(b"c"), Digest([0xff; 32]));
    let waiting = |n: u64, digest| Task { digest, holder: None, ..asking(n) };
    let (waits, spared) = (waiting(1, bad), waiting(2, Digest::of(b"good")));
    let ended = end(waiting(3, bad)).unwrap();
    // One that has a holder is its holder's to end.
    for task in [&waits, &spared, &ended, &task(4)] {
        store.insert(task.clone(), Vec::new()).await.unwrap();
    }
    let condemned =
        async || -> Vec<TaskId> { other.condemned(10).await.unwrap().iter().map(|task| task.id).collect() };
    assert_eq!((other.revoked().await.unwrap(), condemned().await), (vec![], vec![]));
    let revoked = |digest, at, reason: Option<&str>| Revoked {
        digest,
        at: UnixMillis(at),
        reason: reason.map(Into::into),
    };
    let first = revoked(bad, 5, Some("a \0 leak"));
    store.revoke(revoked(worse, 7, None)).await.unwrap();
    assert_eq!(condemned().await, []);
    store.revoke(first.clone()).await.unwrap();
    // What is there stays.
    other.revoke(revoked(bad, 6, Some("again"))).await.unwrap();
    let mut all = vec![first, revoked(worse, 7, None)];
    all.sort_by_key(|revoked| revoked.digest);
    assert_eq!(store.revoked().await.unwrap(), all);
    assert_eq!(condemned().await, [waits.id]);
    assert_eq!(other.condemned(0).await.unwrap(), vec![]);
    store.update(waits.id, Box::new(end), Vec::new()).await.unwrap();
    assert_eq!(condemned().await, []);
    // And over a start, until it is taken back.
    let third = open(ground).await;
    assert_eq!(third.revoked().await.unwrap(), all);
    third.unrevoke(worse).await.unwrap();
    third.unrevoke(Digest([1; 32])).await.unwrap();
    all.retain(|revoked| revoked.digest == bad);
    assert_eq!(other.revoked().await.unwrap(), all);
}

pub(in crate::store) async fn several_stores_share_a_database(ground: &dyn Ground) {
    // Opened at once, on a database that is not there yet: one of them makes the schema.
    let config = StoreConfig::default();
    let stores: Vec<_> = futures::future::join_all((0..4).map(|_| ground.open(&config))).await;
    let counter = task(0);
    stores[0].insert(counter.clone(), Vec::new()).await.unwrap();
    let mut work = Vec::new();
    for store in &stores {
        for n in 0..50 {
            let (store, id) = (store.clone(), counter.id);
            work.push(tokio::spawn(async move {
                store.insert(asking(n), Vec::new()).await.unwrap();
                let up = store.update(
                    id,
                    Box::new(|t| Ok(Task { poll_interval: t.poll_interval + Millis(1), ..t })),
                    Vec::new(),
                );
                assert!(matches!(up.await.unwrap(), Updated::Done(_)));
            }));
        }
    }
    for w in work {
        w.await.unwrap();
    }
    // No update was lost, and everybody sees everything.
    for store in &stores {
        assert_eq!(store.get(counter.id).await.unwrap().unwrap().poll_interval, Millis(1200));
        assert_eq!(store.list(None, 1000).await.unwrap().len(), 201);
    }
}

/// The writer remembers what it wrote; what others write in between must not be lost by that.
pub(in crate::store) async fn a_remembered_task_is_read_again_once_another_process_has_written(
    ground: &dyn Ground,
) {
    let (one, other) = (open(ground).await, open(ground).await);
    let task = asking(1);
    let id = task.id;
    one.insert(task, Vec::new()).await.unwrap();
    for turn in 0..6 {
        let store = if turn % 2 == 0 { &other } else { &one };
        let longer = move |mut t: Task| {
            assert_eq!(t.ttl, Millis(5000 + turn), "turn {turn} saw an older row");
            t.ttl = Millis(5001 + turn);
            Ok(t)
        };
        assert!(matches!(store.update(id, Box::new(longer), Vec::new()).await.unwrap(), Updated::Done(_)));
    }
    // A change that is refused, or fails to commit, leaves what is remembered as it is stored.
    assert!(matches!(
        one.update(id, Box::new(|_| Err(Refused::Ended)), Vec::new()).await.unwrap(),
        Updated::Refused(..)
    ));
    assert_eq!(one.get(id).await.unwrap().unwrap().ttl, Millis(5006));
    assert!(matches!(other.update(id, Box::new(end), Vec::new()).await.unwrap(), Updated::Done(_)));
    let ended = one.update(id, Box::new(end), Vec::new()).await.unwrap();
    assert!(matches!(ended, Updated::Refused(Refused::Ended, _)), "{ended:?}");
}

/// More rows than the largest statement takes, and every rest.
pub(in crate::store) async fn batches_of_every_size_are_written_whole(ground: &dyn Ground) {
    let store = open(ground).await;
    for count in [1_u64, 2, 3, 63, 64, 65, 200] {
        let tasks: Vec<Task> = (0..count).map(asking).collect();
        futures::future::join_all(tasks.iter().map(|t| store.insert(t.clone(), Vec::new()))).await;
        futures::future::join_all(tasks.iter().map(|t| store.update(t.id, Box::new(end), Vec::new()))).await;
        for task in &tasks {
            let stored = store.get(task.id).await.unwrap().unwrap();
            assert_eq!((stored.status, &stored.questions), (Status::Completed, &task.questions));
        }
    }
}
