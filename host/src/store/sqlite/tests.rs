#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The store on real files, with what goes wrong there.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::store::{
    Answer, End, IdempotencyKey, Question, QuestionKind, Refused, Status, boottime_ms, os_boot_id,
};

fn task(n: u64) -> Task {
    Task {
        id: TaskId::new(),
        principal: Principal::local(),
        tool: "t".into(),
        plugin: "p".into(),
        digest: Digest::of(b"c"),
        status: Status::Working,
        status_message: Some("one\0two".into()),
        created_at: UnixMillis(1000 + n),
        updated_at: UnixMillis(1000 + n),
        ttl: Millis(5000),
        poll_interval: Millis(1000),
        active_left: Millis(700),
        absence: Millis(300),
        holder: Some(BootId(Uuid::from_u128(7))),
        fence: 1,
        cancel_requested: None,
        input_deadline: None,
        resume_on_timeout: false,
        revealed: true,
        key: None,
        questions: Vec::new(),
        end: None,
    }
}

fn question(key: &str, round: u32) -> Question {
    let request = json!({"method": "elicitation/create", "params": {"message": "line\nbreak \u{0} \"x\" ü"}});
    Question { key: key.into(), round, kind: QuestionKind::Form, request: Arc::new(request), answer: None }
}

fn asking(n: u64) -> Task {
    Task {
        status: Status::InputRequired,
        input_deadline: Some(UnixMillis(3000)),
        questions: vec![question("a b", 0), question("c\nd", 0)],
        ..task(n)
    }
}

fn keyed(n: u64, key: &str) -> Task {
    Task { key: Some(IdempotencyKey { key: key.into(), arguments: Digest::of(b"a") }), ..task(n) }
}

fn end(mut t: Task) -> Result<Task, Refused> {
    if t.end.is_some() {
        return Err(Refused::Ended);
    }
    t.status = Status::Completed;
    t.end = Some(End::Completed(json!({"content": []})));
    t.holder = None;
    Ok(t)
}

async fn open(dir: &TempDir) -> Arc<dyn Store> {
    SqliteStore::open(dir.path(), &StoreConfig::default()).await.expect("a store")
}

#[tokio::test]
async fn rows_come_back_as_they_went_in() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
    let mut full = asking(1);
    full.key = Some(IdempotencyKey { key: "k\0ey".into(), arguments: Digest::of(b"x") });
    full.cancel_requested = Some(UnixMillis(1500));
    full.resume_on_timeout = true;
    full.revealed = false;
    full.ttl = Millis(u64::MAX >> 1);
    full.questions[0].answer = Some(Answer::Accepted(json!({"a": 1.5, "b": "\u{0}"})));
    full.questions[1].answer = Some(Answer::Declined);
    store.insert(full.clone()).await.unwrap();
    assert_eq!(store.get(full.id).await.unwrap(), Some(full.clone()));
    let ended = match store.update(full.id, Box::new(end)).await.unwrap() {
        Updated::Done(t) => t,
        other => panic!("{other:?}"),
    };
    assert_eq!(store.get(full.id).await.unwrap(), Some(ended.clone()));
    // Terminal is final, and an unknown id is no error.
    match store.update(full.id, Box::new(end)).await.unwrap() {
        Updated::Refused(Refused::Ended, t) => assert_eq!(t, ended),
        other => panic!("{other:?}"),
    }
    assert!(matches!(store.update(TaskId::new(), Box::new(end)).await.unwrap(), Updated::Unknown));
    store.close().await;
    assert!(matches!(store.insert(task(2)).await, Err(StoreError::Closed)));
    // Another start finds it all, in a folder for the owner alone.
    let store = open(&dir).await;
    assert_eq!(store.list(Some(Principal::local()), 10).await.unwrap(), vec![ended]);
    assert_eq!(store.list(Some(Principal::operator()), 10).await.unwrap(), vec![]);
    let mode = std::fs::metadata(dir.path().join("layby.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_new_folder_is_for_the_owner_alone() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    SqliteStore::open(&data, &StoreConfig::default()).await.unwrap().close().await;
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_batch_keeps_order_and_spares_the_others_a_bad_row() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
    let first = asking(0);
    store.insert(first.clone()).await.unwrap();
    let tasks: Vec<Task> = (1..100).map(asking).collect();
    // The same id twice is a bug of the caller's; only it fails.
    let bad = store.insert(first.clone());
    let good = futures::future::join_all(tasks.iter().map(|t| store.insert(t.clone())));
    let answers = futures::future::join_all(tasks.iter().map(|t| {
        store.update(
            t.id,
            Box::new(|mut t| {
                t.questions[1].answer = Some(Answer::Dismissed);
                t.questions.push(question("later", 1));
                Ok(t)
            }),
        )
    }));
    let panics = store.update(first.id, Box::new(|_| panic!("a bug")));
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
    assert_eq!(store.count_live().await.unwrap(), 100);
}

#[tokio::test]
async fn one_key_makes_one_task_until_its_time_is_over() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
    let repeats: Vec<Task> = (0..100).map(|n| keyed(n, "k")).collect();
    let admitted = futures::future::join_all(repeats.iter().map(|t| store.admit(t.clone()))).await;
    let fresh: Vec<usize> = (0..100).filter(|i| matches!(admitted[*i], Ok(Admitted::Fresh))).collect();
    assert_eq!(fresh.len(), 1);
    let first = &repeats[fresh[0]];
    for a in admitted.into_iter().flatten() {
        if let Admitted::Exists(there) = a {
            assert_eq!(there.id, first.id);
        }
    }
    let other = Task { principal: Principal::operator(), ..keyed(1, "k") };
    assert!(matches!(store.admit(other).await, Ok(Admitted::Fresh)));
    // Ended, but within its TTL, it still answers; after that the key is free.
    store.update(first.id, Box::new(end)).await.unwrap();
    assert!(matches!(store.admit(keyed(4000, "k")).await, Ok(Admitted::Exists(_))));
    assert!(matches!(store.admit(keyed(9000, "k")).await, Ok(Admitted::Fresh)));
    assert_eq!(store.get(first.id).await.unwrap(), None);
    assert_eq!(store.tombstone(first.id).await.unwrap().unwrap().status, Status::Completed);
}

#[tokio::test]
async fn attention_goes_to_those_who_need_it() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
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
        store.insert(t).await.unwrap();
    }
    let count = |now| store.attention(me, UnixMillis(now));
    assert_eq!(count(2000).await.unwrap().len(), 2, "the cancelled and the answered one");
    assert_eq!(count(3000).await.unwrap().len(), 3, "and the one whose questions ran out");
    assert_eq!(count(6003).await.unwrap().len(), 4, "and the one whose TTL is over");
    assert!(store.attention(BootId(Uuid::from_u128(8)), UnixMillis(9000)).await.unwrap().is_empty());
}

#[tokio::test]
async fn only_the_dead_leave_orphans() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
    let (me, holder) = (BootId(Uuid::from_u128(1)), BootId(Uuid::from_u128(7)));
    let os_boot = os_boot_id().unwrap();
    store.insert(task(1)).await.unwrap();
    let lease = |until_boottime_ms, os_boot| Lease { boot: holder, os_boot, until_boottime_ms };
    let takeover = StoreConfig::default().takeover.0;
    let cases = [
        (boottime_ms() + 60_000, os_boot, false),
        // Over, but its holder still has the time to notice.
        (boottime_ms() - takeover / 2, os_boot, false),
        (boottime_ms() - takeover - 1, os_boot, true),
        // From before a reboot.
        (boottime_ms() + 60_000, Uuid::from_u128(9), true),
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

#[tokio::test]
async fn the_expired_leave_tombstones_for_a_while() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
    let tasks: Vec<Task> = (0..1100).map(|n| if n % 2 == 0 { asking(n) } else { task(n) }).collect();
    futures::future::join_all(tasks.iter().map(|t| store.insert(t.clone()))).await;
    futures::future::join_all(tasks[..1050].iter().map(|t| store.update(t.id, Box::new(end)))).await;
    let now = UnixMillis(1000 + 5000 + 2000);
    assert_eq!(store.sweep(now, UnixMillis(0)).await.unwrap(), 1050, "live ones stay");
    assert_eq!(store.count_live().await.unwrap(), 50);
    assert_eq!(store.get(tasks[0].id).await.unwrap(), None);
    let stone = store.tombstone(tasks[0].id).await.unwrap().unwrap();
    assert_eq!((stone.status, stone.expired_at), (Status::Completed, UnixMillis(6000)));
    assert_eq!(store.sweep(now, UnixMillis(6001)).await.unwrap(), 0);
    assert_eq!(store.tombstone(tasks[0].id).await.unwrap(), None);
    assert!(store.tombstone(tasks[1].id).await.unwrap().is_some());
}

#[tokio::test]
async fn plugins_and_their_bytes() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
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
    store.insert(task(1)).await.unwrap();
    let mut used = store.digests_in_use().await.unwrap();
    used.sort();
    let mut expected = vec![Digest::of(b"0"), Digest::of(b"1"), Digest::of(b"c")];
    expected.sort();
    assert_eq!(used, expected);
    store.drop_plugin("p".into()).await.unwrap();
    assert_eq!(store.plugins().await.unwrap().len(), 1);
}

// --- what goes wrong ---

#[tokio::test]
async fn a_damaged_file_is_named_and_left_alone() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("layby.db");
    let junk = vec![b'x'; 10_000];
    std::fs::write(&file, &junk).unwrap();
    let opened = SqliteStore::open(dir.path(), &StoreConfig::default()).await;
    assert!(matches!(opened.err(), Some(StoreError::Corrupt(_))));
    assert_eq!(std::fs::read(&file).unwrap(), junk);
}

#[tokio::test]
async fn a_newer_schema_is_refused_untouched() {
    let dir = TempDir::new().unwrap();
    open(&dir).await.close().await;
    let options = SqliteConnectOptions::new().filename(dir.path().join("layby.db"));
    let mut c = options.connect().await.unwrap();
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', 1, x'00', 0)",
    )
    .execute(&mut c)
    .await
    .unwrap();
    c.close().await.unwrap();
    let opened = SqliteStore::open(dir.path(), &StoreConfig::default()).await;
    match opened.err() {
        Some(StoreError::Newer { found: 9999, known }) => assert!(known < 9999),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lock_is_waited_for_and_then_named() {
    let dir = TempDir::new().unwrap();
    let config = StoreConfig { busy_timeout: Millis(200), ..StoreConfig::default() };
    let store = SqliteStore::open(dir.path(), &config).await.unwrap();
    let options = SqliteConnectOptions::new().filename(dir.path().join("layby.db"));
    let mut c = options.connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut c).await.unwrap();
    let started = std::time::Instant::now();
    let t = task(1);
    let both = tokio::join!(store.insert(t.clone()), store.insert(task(2)));
    assert!(matches!(both, (Err(StoreError::Locked(_)), Err(StoreError::Locked(_)))), "{both:?}");
    assert!(started.elapsed() >= Duration::from_millis(190));
    sqlx::query("ROLLBACK").execute(&mut c).await.unwrap();
    assert_eq!(store.get(t.id).await.unwrap(), None);
    store.insert(t.clone()).await.unwrap();
    assert_eq!(store.get(t.id).await.unwrap(), Some(t));
}

#[tokio::test]
async fn a_full_disk_is_named_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    open(&dir).await.close().await;
    // As a full disk does, SQLite's own bound fails writes that need new pages, and rolls back.
    let options = SqliteConnectOptions::new()
        .filename(dir.path().join("layby.db"))
        .foreign_keys(true)
        .pragma("max_page_count", "60");
    let writer = Writer::open(options, 64).await.unwrap();
    let (queue, jobs) = mpsc::channel(64);
    let running = tokio::spawn(writer.run(jobs));
    let ask = async |work| {
        let (reply, answer) = oneshot::channel();
        queue.send(Job { work, reply }).await.ok().unwrap();
        answer.await.unwrap()
    };
    let kept = task(0);
    ask(Work::Insert(Box::new(kept.clone()))).await.unwrap();
    let big = || Task { status_message: Some("x".repeat(400_000)), ..task(1) };
    // Those that fit are written, though they share a batch with one that does not.
    let (small, large, end) =
        (task(2), ask(Work::Insert(Box::new(big()))), ask(Work::Update(kept.id, Box::new(end))));
    let (a, b, c) = tokio::join!(ask(Work::Insert(Box::new(small.clone()))), large, end);
    assert!(matches!(b, Err(StoreError::Full(_))), "{b:?}");
    assert!(
        a.is_ok() && matches!(&c, Ok(Done::Updated(u)) if matches!(**u, Updated::Done(_))),
        "{a:?} {c:?}"
    );
    drop(queue);
    running.await.unwrap();
    let store = open(&dir).await;
    assert_eq!(store.get(kept.id).await.unwrap().unwrap().status, Status::Completed);
    assert!(store.get(small.id).await.unwrap().is_some());
    assert_eq!(store.list(None, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_unknown_commit_is_looked_up() {
    let dir = TempDir::new().unwrap();
    open(&dir).await.close().await;
    let options = SqliteConnectOptions::new().filename(dir.path().join("layby.db"));
    let mut writer = Writer::open(options, 1).await.unwrap();
    writer.commit(&[&Work::Insert(Box::new(task(1)))]).await.unwrap();
    assert!(writer.was_committed().await.unwrap());
    writer.skip_sequence();
    assert!(!writer.was_committed().await.unwrap());
    writer.commit(&[&Work::Insert(Box::new(task(2)))]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_stores_share_a_file() {
    let dir = TempDir::new().unwrap();
    // Opened at once, on a file that is not there yet: one of them makes the schema.
    let config = StoreConfig::default();
    let opening = (0..4).map(|_| SqliteStore::open(dir.path(), &config));
    let stores: Vec<_> = futures::future::try_join_all(opening).await.unwrap();
    let counter = task(0);
    stores[0].insert(counter.clone()).await.unwrap();
    let mut work = Vec::new();
    for store in &stores {
        for n in 0..50 {
            let (store, id) = (store.clone(), counter.id);
            work.push(tokio::spawn(async move {
                store.insert(asking(n)).await.unwrap();
                let up = store
                    .update(id, Box::new(|t| Ok(Task { poll_interval: t.poll_interval + Millis(1), ..t })));
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
#[tokio::test]
async fn a_remembered_task_is_read_again_once_another_process_has_written() {
    let dir = TempDir::new().unwrap();
    let (one, other) = (open(&dir).await, open(&dir).await);
    let task = asking(1);
    let id = task.id;
    one.insert(task).await.unwrap();
    for turn in 0..6 {
        let store = if turn % 2 == 0 { &other } else { &one };
        let longer = move |mut t: Task| {
            assert_eq!(t.ttl, Millis(5000 + turn), "turn {turn} saw an older row");
            t.ttl = Millis(5001 + turn);
            Ok(t)
        };
        assert!(matches!(store.update(id, Box::new(longer)).await.unwrap(), Updated::Done(_)));
    }
    // A change that is refused, or fails to commit, leaves what is remembered as it is stored.
    assert!(matches!(one.update(id, Box::new(|_| Err(Refused::Ended))).await.unwrap(), Updated::Refused(..)));
    assert_eq!(one.get(id).await.unwrap().unwrap().ttl, Millis(5006));
    assert!(matches!(other.update(id, Box::new(end)).await.unwrap(), Updated::Done(_)));
    let ended = one.update(id, Box::new(end)).await.unwrap();
    assert!(matches!(ended, Updated::Refused(Refused::Ended, _)), "{ended:?}");
}

/// More rows than the largest statement takes, and every rest.
#[tokio::test]
async fn batches_of_every_size_are_written_whole() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
    for count in [1_u64, 2, 3, 63, 64, 65, 200] {
        let tasks: Vec<Task> = (0..count).map(asking).collect();
        futures::future::join_all(tasks.iter().map(|t| store.insert(t.clone()))).await;
        futures::future::join_all(tasks.iter().map(|t| store.update(t.id, Box::new(end)))).await;
        for task in &tasks {
            let stored = store.get(task.id).await.unwrap().unwrap();
            assert_eq!((stored.status, &stored.questions), (Status::Completed, &task.questions));
        }
    }
}
