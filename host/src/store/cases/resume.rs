//! Journals, and tasks that wait for a process to go on with them.

use uuid::Uuid;

use super::{Ground, asking, end, keyed, live, open, task};
use crate::{
    base::{Blob, BootId, Millis, Piece, TaskId, UnixMillis, boottime_ms},
    store::{Admitted, Except, Lease, Refused, Status, Store, Task, Updated, os_boot_id},
};

const HOLDER: BootId = BootId(Uuid::from_u128(7));

fn pieces(texts: &[&str]) -> Vec<Piece> {
    texts.iter().map(|t| t.as_bytes().to_vec().into()).collect()
}

/// Parked in a sleep that is over at 2000.
fn asleep(n: u64) -> Task {
    Task { holder: None, wake_at: Some(UnixMillis(2000)), parked_at: Some(UnixMillis(1000)), ..task(n) }
}

/// Nobody's, and fit to go on.
fn ready(n: u64) -> Task {
    Task { wake_at: None, ..asleep(n) }
}

async fn put(store: &dyn Store, task: &Task) {
    store.insert(task.clone(), pieces(&["header"])).await.unwrap();
}

fn ids(tasks: Vec<Task>) -> Vec<TaskId> {
    tasks.into_iter().map(|t| t.id).collect()
}

pub(in crate::store) async fn a_journal_grows_with_its_task_or_not_at_all(ground: &dyn Ground) {
    let store = open(ground).await;
    let (one, none) = (task(1), task(2));
    store.insert(one.clone(), pieces(&["header", ""])).await.unwrap();
    store.insert(none.clone(), Vec::new()).await.unwrap();
    assert_eq!(store.get(one.id).await.unwrap().unwrap().pieces, 2);
    assert_eq!(store.journal(none.id).await.unwrap(), pieces(&[]));
    assert_eq!(store.journal(TaskId::new()).await.unwrap(), pieces(&[]));
    // Several appends in one batch, and one in between that is refused.
    let add = |text| store.update(one.id, Box::new(Ok), pieces(&[text]));
    let refused = store.update(one.id, Box::new(|_| Err(Refused::Unchanged)), pieces(&["lost"]));
    let (a, b, c) = tokio::join!(add("a\0"), refused, add("b"));
    assert!(matches!(b.unwrap(), Updated::Refused(Refused::Unchanged, _)));
    let mut counts = Vec::new();
    for done in [a, c] {
        let Updated::Done(task) = done.unwrap() else { panic!("not done") };
        counts.push(task.pieces);
    }
    assert_eq!(counts, [3, 4]);
    assert_eq!(store.journal(one.id).await.unwrap(), pieces(&["header", "", "a\0", "b"]));
    assert!(matches!(
        store.update(TaskId::new(), Box::new(Ok), pieces(&["lost"])).await.unwrap(),
        Updated::Unknown
    ));
    // Larger than a page, and more than one statement takes.
    let many: Vec<Piece> = (0..100_u8).map(|n| vec![n; 10_000].into()).collect();
    store.update(one.id, Box::new(Ok), many.clone()).await.unwrap();
    assert_eq!(store.journal(one.id).await.unwrap()[4..], many);
    // A repeat of a key adds nothing.
    let (first, repeat) = (keyed(1, "k"), keyed(2, "k"));
    assert!(matches!(store.admit(first.clone(), pieces(&["x"])).await, Ok(Admitted::Fresh)));
    assert!(matches!(store.admit(repeat.clone(), pieces(&["y"])).await, Ok(Admitted::Exists(_))));
    assert_eq!(store.journal(first.id).await.unwrap(), pieces(&["x"]));
    assert_eq!(store.journal(repeat.id).await.unwrap(), pieces(&[]));
    // It stays until its task is swept.
    store.update(one.id, Box::new(end), pieces(&["last"])).await.unwrap();
    assert_eq!(store.journal(one.id).await.unwrap().len(), 105);
    store.sweep(UnixMillis(10_000), UnixMillis(0)).await.unwrap();
    assert_eq!(store.journal(one.id).await.unwrap(), pieces(&[]));
}

pub(in crate::store) async fn large_answers_are_kept_beside_their_piece(ground: &dyn Ground) {
    let store = open(ground).await;
    let (one, other) = (task(1), task(2));
    let mut blobs = [3, 2, 1].map(|n| Blob::of(vec![n; 300_000])).to_vec();
    blobs.sort_by_key(|blob| blob.digest);
    let with = |blobs: &[Blob]| vec![Piece { bytes: b"names them".to_vec(), blobs: blobs.to_vec() }];
    for task in [&one, &other] {
        store.insert(task.clone(), pieces(&["header"])).await.unwrap();
        // Two in one piece, more than one statement takes; and another task may have the same.
        store.update(task.id, Box::new(Ok), with(&blobs[..2])).await.unwrap();
        store.update(task.id, Box::new(Ok), pieces(&["none"])).await.unwrap();
        store.update(task.id, Box::new(Ok), with(&blobs[2..])).await.unwrap();
        let refused = store.update(task.id, Box::new(|_| Err(Refused::Unchanged)), with(&blobs)).await;
        assert!(matches!(refused.unwrap(), Updated::Refused(..)));
    }
    let whole = |mut pieces: Vec<Piece>| {
        // Those of one piece have no order.
        pieces.iter_mut().for_each(|piece| piece.blobs.sort_by_key(|blob| blob.digest));
        pieces
    };
    let all = [pieces(&["header"]), with(&blobs[..2]), pieces(&["none"]), with(&blobs[2..])].concat();
    assert_eq!(whole(store.journal(one.id).await.unwrap()), all);
    // They go with their task.
    store.update(one.id, Box::new(end), Vec::new()).await.unwrap();
    store.sweep(UnixMillis(10_000), UnixMillis(0)).await.unwrap();
    assert_eq!(store.journal(one.id).await.unwrap(), pieces(&[]));
    assert_eq!(whole(store.journal(other.id).await.unwrap()), all);
    assert_eq!(ground.blobs().await, 3, "none of a task that is gone");
}

pub(in crate::store) async fn who_resumes_one_alone_is_known(ground: &dyn Ground) {
    let store = open(ground).await;
    let other = BootId(Uuid::from_u128(8));
    let held = |n, holder, attempts| Task { holder, attempts, ..task(n) };
    for t in [held(1, Some(HOLDER), 1), held(2, None, 3), held(3, Some(other), 0)] {
        put(&*store, &Task { parked_at: t.holder.is_none().then_some(UnixMillis(1000)), ..t }).await;
    }
    assert_eq!(store.alone().await.unwrap(), []);
    let (one, two) = (held(4, Some(HOLDER), 2), held(5, Some(HOLDER), 4));
    put(&*store, &one).await;
    put(&*store, &two).await;
    assert_eq!(store.alone().await.unwrap(), [HOLDER], "once, though it has two");
    for id in [one.id, two.id] {
        store.update(id, Box::new(end), Vec::new()).await.unwrap();
    }
    assert_eq!(store.alone().await.unwrap(), []);
}

pub(in crate::store) async fn only_what_can_go_on_is_resumable(ground: &dyn Ground) {
    let store = open(ground).await;
    let at = UnixMillis;
    let question = |n| Task { holder: None, parked_at: Some(at(1000)), ..asking(n) };
    // When it may be claimed, if ever.
    let cases = [
        ("ready", ready(0), Some(0)),
        ("asleep", asleep(0), Some(2000)),
        ("backing off", Task { retry_at: Some(at(2500)), ..ready(0) }, Some(2500)),
        ("both", Task { retry_at: Some(at(2500)), ..asleep(0) }, Some(2500)),
        ("waits for an answer", question(0), None),
        ("answered", Task { status: Status::Working, input_deadline: None, ..question(0) }, Some(0)),
        ("pinned", Task { pinned: Some("it wrote".into()), ..ready(0) }, None),
        ("cancelled", Task { cancel_requested: Some(at(1000)), ..ready(0) }, None),
        ("of a dead holder", task(0), Some(0)),
        ("asking, of a dead holder", asking(0), None),
        ("ended", end(ready(0)).unwrap(), None),
    ];
    for (_, task, _) in &cases {
        put(&*store, task).await;
    }
    store.insert(ready(0), Vec::new()).await.unwrap();
    for now in [0, 1999, 2000, 2499, 2500, 5999, 6000] {
        let found = ids(store.resumable(at(now), Except::default(), 100).await.unwrap());
        let fit = |from: &Option<u64>| from.is_some_and(|f| f <= now) && now < 6000;
        for (name, task, from) in &cases {
            assert_eq!(found.contains(&task.id), fit(from), "{name} at {now}");
        }
        assert_eq!(found.len(), cases.iter().filter(|(.., from)| fit(from)).count(), "one has no journal");
    }
    // A holder that lives keeps its tasks.
    let os_boot = os_boot_id().unwrap();
    let lease = Lease { boot: HOLDER, os_boot, until_boottime_ms: boottime_ms() + 60_000 };
    store.heartbeat(lease).await.unwrap();
    let found = ids(store.resumable(at(2000), Except::default(), 100).await.unwrap());
    assert!(!found.contains(&cases[8].1.id) && found.contains(&cases[0].1.id));
    // What is nobody's is no orphan.
    store.release(HOLDER).await.unwrap();
    let mut orphans = ids(store.orphans(BootId(Uuid::from_u128(1))).await.unwrap());
    let mut held = vec![cases[8].1.id, cases[9].1.id];
    orphans.sort();
    held.sort();
    assert_eq!(orphans, held);
}

pub(in crate::store) async fn the_oldest_go_on_first(ground: &dyn Ground) {
    let store = open(ground).await;
    let tasks: Vec<Task> = (0..30)
        .map(|n| match n % 3 {
            0 => ready(n),
            1 => asleep(n),
            _ => task(n),
        })
        .collect();
    for task in &tasks {
        put(&*store, task).await;
    }
    let all = ids(tasks);
    for limit in [0, 1, 7, 30, 100] {
        let found = ids(store.resumable(UnixMillis(2000), Except::default(), limit).await.unwrap());
        assert_eq!(found, all[..all.len().min(limit as usize)]);
    }
    let but = |plugin: &str| Except {
        plugins: vec!["none".to_owned(), plugin.to_owned()],
        tasks: vec![TaskId::new()],
    };
    assert_eq!(ids(store.resumable(UnixMillis(2000), but("nor this"), 100).await.unwrap()), all);
    assert!(store.resumable(UnixMillis(2000), but(&ready(0).plugin), 100).await.unwrap().is_empty());
    let some: Vec<TaskId> = all.iter().copied().step_by(2).collect();
    let others: Vec<TaskId> = all.iter().copied().filter(|id| !some.contains(id)).collect();
    let but = Except { tasks: some, ..Except::default() };
    assert_eq!(ids(store.resumable(UnixMillis(2000), but, 100).await.unwrap()), others);
    // Claimed by a living process, it is out of the way.
    let lease = Lease {
        boot: BootId(Uuid::from_u128(8)),
        os_boot: os_boot_id().unwrap(),
        until_boottime_ms: boottime_ms() + 60_000,
    };
    store.heartbeat(lease).await.unwrap();
    let claim = move |t: Task| Ok(Task { holder: Some(lease.boot), fence: t.fence + 1, wake_at: None, ..t });
    for id in &all[..10] {
        assert!(matches!(store.update(*id, Box::new(claim), Vec::new()).await.unwrap(), Updated::Done(_)));
    }
    assert_eq!(ids(store.resumable(UnixMillis(2000), Except::default(), 100).await.unwrap()), all[10..]);
}

pub(in crate::store) async fn what_is_nobodys_is_looked_after(ground: &dyn Ground) {
    let store = open(ground).await;
    let nobodys = |t: Task| Task { holder: None, parked_at: Some(UnixMillis(1000)), ..t };
    // Since when it needs somebody.
    let cases = [
        ("asleep", asleep(0), 6000),
        ("ready", ready(0), 6000),
        ("asking", nobodys(asking(0)), 3000),
        ("cancelled", nobodys(Task { cancel_requested: Some(UnixMillis(1)), ..asking(0) }), 0),
        ("asks for long", Task { ttl: Millis(1 << 40), ..nobodys(asking(0)) }, 3000),
        ("held", Task { cancel_requested: Some(UnixMillis(1)), ..asking(0) }, u64::MAX),
        ("ended", end(ready(0)).unwrap(), u64::MAX),
    ];
    for (_, task, _) in &cases {
        put(&*store, task).await;
    }
    for now in [0, 2999, 3000, 5999, 6000] {
        let found = ids(store.unattended(UnixMillis(now)).await.unwrap());
        for (name, task, from) in &cases {
            assert_eq!(found.contains(&task.id), *from <= now, "{name} at {now}");
        }
    }
    assert!(store.attention(HOLDER, UnixMillis(9000)).await.unwrap().iter().all(|t| t.id == cases[5].1.id));
    assert_eq!(live(&store).await, 6);
}
