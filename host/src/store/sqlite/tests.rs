#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The store on real files, with what goes wrong there.

use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;
use crate::store::{
    Except, Status,
    cases::{Ground, asking, each_case, end, task},
    work::{Commit as _, Done},
};

struct Folder(TempDir);

impl Ground for Folder {
    fn open<'a>(&'a self, config: &'a StoreConfig) -> BoxFuture<'a, Arc<dyn Store>> {
        async { SqliteStore::open(self.0.path(), config).await.expect("a store") }.boxed()
    }

    fn is_one_machine(&self) -> bool {
        true
    }

    fn blobs(&self) -> BoxFuture<'_, i64> {
        async {
            let options = SqliteConnectOptions::new().filename(self.0.path().join("layby.db"));
            let mut c = options.connect().await.unwrap();
            sqlx::query_scalar("SELECT count(*) FROM blobs").fetch_one(&mut c).await.unwrap()
        }
        .boxed()
    }
}

each_case!(async { Folder(TempDir::new().unwrap()) });

async fn open(dir: &TempDir) -> Arc<dyn Store> {
    SqliteStore::open(dir.path(), &StoreConfig::default()).await.expect("a store")
}

#[tokio::test]
async fn a_new_folder_is_for_the_owner_alone() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    SqliteStore::open(&data, &StoreConfig::default()).await.unwrap().close().await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&data.join("layby.db"))), (0o700, 0o600));
}

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
    let both = tokio::join!(store.insert(t.clone(), Vec::new()), store.insert(task(2), Vec::new()));
    assert!(matches!(both, (Err(StoreError::Locked(_)), Err(StoreError::Locked(_)))), "{both:?}");
    assert!(started.elapsed() >= Duration::from_millis(190));
    sqlx::query("ROLLBACK").execute(&mut c).await.unwrap();
    assert_eq!(store.get(t.id).await.unwrap(), None);
    store.insert(t.clone(), Vec::new()).await.unwrap();
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
    let writer = Writer::open(options).await.unwrap();
    let (queue, jobs) = Queue::new(64);
    let running = tokio::spawn(serve(writer, jobs, 64));
    let ask = async |work| queue.write(work).await;
    let kept = task(0);
    ask(Work::Insert(Box::new(kept.clone()), Vec::new())).await.unwrap();
    let big = || Task { status_message: Some("x".repeat(400_000)), ..task(1) };
    // Those that fit are written, though they share a batch with one that does not.
    let (small, large, end) = (
        task(2),
        ask(Work::Insert(Box::new(big()), Vec::new())),
        ask(Work::Update(kept.id, Box::new(end), Vec::new())),
    );
    let (a, b, c) = tokio::join!(ask(Work::Insert(Box::new(small.clone()), Vec::new())), large, end);
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
    let mut writer = Writer::open(options).await.unwrap();
    writer.commit(&[&Work::Insert(Box::new(task(1)), Vec::new())]).await.unwrap();
    assert!(writer.was_committed().await.unwrap());
    writer.skip_sequence();
    assert!(!writer.was_committed().await.unwrap());
    writer.commit(&[&Work::Insert(Box::new(task(2)), Vec::new())]).await.unwrap();
}

/// Parked tasks may be many. Each look of every second must go over an index, and over entries that it
/// wants.
#[tokio::test]
async fn no_look_goes_over_all_parked_tasks() {
    let dir = TempDir::new().unwrap();
    open(&dir).await.close().await;
    let options = SqliteConnectOptions::new().filename(dir.path().join("layby.db"));
    let mut c = options.connect().await.unwrap();
    // The statement, its values, and the rows of "tasks" that it may look for.
    let looks = [
        ("resumable", sql::RESUMABLE),
        ("unattended", sql::UNATTENDED),
        ("orphans", sql::ORPHANS),
        ("alone", sql::ALONE),
        ("attention", sql::ATTENTION),
        ("live", sql::COUNT_LIVE),
        ("hidden", sql::COUNT_HIDDEN),
        ("hidden of one", sql::COUNT_HIDDEN_OF),
        ("digests", sql::DIGESTS),
        ("condemned", sql::CONDEMNED),
    ];
    for (name, statement) in looks {
        let explain = format!("EXPLAIN QUERY PLAN {statement}");
        let plan: Vec<String> = sqlx::query(sqlx::AssertSqlSafe(explain))
            .fetch_all(&mut c)
            .await
            .unwrap()
            .iter()
            .map(|row| sqlx::Row::get(row, 3))
            .collect();
        let scans: Vec<&String> = plan
            .iter()
            .filter(|step| step.starts_with("SCAN tasks") || step.starts_with("SCAN t "))
            .filter(|step| {
                let small = ["COVERING INDEX tasks_live", "INDEX tasks_hidden", "INDEX tasks_alone"];
                !small.iter().any(|index| step.contains(index))
            })
            .collect();
        assert!(scans.is_empty(), "{name}: {plan:#?}");
    }
}

/// The same, measured: with 20,000 parked tasks the looks take no steps for them.
#[tokio::test]
async fn parked_tasks_cost_nothing_per_look() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
    let (boot, now) = (crate::base::BootId(uuid::Uuid::from_u128(7)), UnixMillis(2000));
    let parked = |n: u64| Task {
        holder: None,
        ttl: Millis(1 << 40),
        input_deadline: Some(UnixMillis(1 << 40)),
        parked_at: Some(UnixMillis(1000)),
        ..asking(n)
    };
    let time = async || {
        let start = std::time::Instant::now();
        for _ in 0..20 {
            assert!(store.resumable(now, Except::default(), 100).await.unwrap().is_empty());
            assert!(store.unattended(now).await.unwrap().is_empty());
            assert!(store.orphans(boot).await.unwrap().is_empty());
            assert!(store.attention(boot, now).await.unwrap().is_empty());
            assert!(store.condemned(100).await.unwrap().is_empty());
        }
        start.elapsed() / 20
    };
    let digest = crate::base::Digest([7; 32]);
    store.revoke(crate::store::Revoked { digest, at: now, reason: None }).await.unwrap();
    let before = time().await;
    for chunk in 0..20 {
        let inserts = (0..1000).map(|n| store.insert(parked(chunk * 1000 + n), vec![vec![1; 200].into()]));
        futures::future::try_join_all(inserts).await.unwrap();
    }
    let after = time().await;
    assert!(after < before * 10 + Duration::from_millis(5), "{before:?} without, {after:?} with 20,000");
}

#[tokio::test]
async fn a_journal_with_a_gap_is_damaged() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir).await;
    let t = task(1);
    store.insert(t.clone(), vec![vec![1].into(), vec![2].into(), vec![3].into()]).await.unwrap();
    let options = SqliteConnectOptions::new().filename(dir.path().join("layby.db"));
    let mut c = options.connect().await.unwrap();
    for (n, what) in [(1, "piece 1"), (2, "1 pieces")] {
        sqlx::query("DELETE FROM journals WHERE n = ?").bind(n).execute(&mut c).await.unwrap();
        match store.journal(t.id).await {
            Err(StoreError::Corrupt(why)) => assert!(why.contains(what), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

/// One process's clock is every process's, until one of them replaces the very clock that there is.
#[tokio::test]
async fn processes_agree_on_a_clock() {
    let dir = TempDir::new().unwrap();
    let (one, two) = (open(&dir).await, open(&dir).await);
    let ms = |ms| Some(Millis(ms));
    assert_eq!(one.clock(Millis(1000), None).await.unwrap(), ms(1000));
    assert_eq!(two.clock(Millis(9000), None).await.unwrap(), ms(1000));
    assert_eq!(two.clock(Millis(9000), ms(1000)).await.unwrap(), ms(9000));
    // Too late: another has.
    assert_eq!(one.clock(Millis(5000), ms(1000)).await.unwrap(), ms(9000));
    assert_eq!(one.clock(Millis(1000), None).await.unwrap(), ms(9000));
}
