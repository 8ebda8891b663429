#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The store on a real server, with what goes wrong there.

use std::{
    str::FromStr as _,
    sync::atomic::{AtomicU32, AtomicUsize},
};

use futures::StreamExt as _;
use sqlx::{Executor as _, Row as _};
use sqlx_postgres::PgConnection;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use uuid::Uuid;

use super::*;
use crate::store::{
    Answer, Status,
    cases::{Ground, asking, each_case, end, task},
};

/// Where the tests' server is, as an administrator of it.
const VARIABLE: &str = "LAYBY_TESTS_POSTGRES";

/// A database of its own on the tests' server.
pub(in crate::store) struct Database {
    pub(in crate::store) url: String,
    name: String,
}

impl Database {
    pub(in crate::store) async fn new() -> Self {
        let server = std::env::var(VARIABLE).unwrap_or_else(|_| {
            panic!(
                "{VARIABLE} is not set: run `cargo xtask test`, or `eval \"$(cargo xtask postgres)\"` first"
            )
        });
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}_{n}", std::process::id());
        let mut c = PgConnectOptions::from_str(&server).unwrap().connect().await.unwrap();
        for statement in
            [format!("DROP DATABASE IF EXISTS {name}"), format!("CREATE DATABASE {name} TEMPLATE template0")]
        {
            c.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
        }
        c.close().await.unwrap();
        let (before, _) = server.rsplit_once('/').expect("a URL with a database");
        Self { url: format!("{before}/{name}"), name }
    }

    async fn connect(&self) -> PgConnection {
        PgConnectOptions::from_str(&self.url).unwrap().connect().await.unwrap()
    }

    /// The same database by another port.
    fn through(&self, port: u16) -> String {
        let mut url = url::Url::parse(&self.url).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(port)).unwrap();
        url.to_string()
    }
}

impl Ground for Database {
    fn open<'a>(&'a self, config: &'a StoreConfig) -> BoxFuture<'a, Arc<dyn Store>> {
        async { PostgresStore::open(&self.url, Uuid::nil(), config).await.expect("a store") }.boxed()
    }

    fn is_one_machine(&self) -> bool {
        false
    }

    fn blobs(&self) -> BoxFuture<'_, i64> {
        async {
            let mut c = self.connect().await;
            sqlx::query_scalar("SELECT count(*) FROM blobs").fetch_one(&mut c).await.unwrap()
        }
        .boxed()
    }
}

each_case!(Database::new());

/// The pieces of a journal.
async fn pieces(store: &dyn Store, id: TaskId) -> Vec<Vec<u8>> {
    store.journal(id).await.unwrap().into_iter().map(|piece| piece.bytes).collect()
}

async fn open(ground: &Database) -> Arc<dyn Store> {
    ground.open(&StoreConfig::default()).await
}

fn ok(updated: Result<Updated, StoreError>) -> Task {
    match updated.unwrap() {
        Updated::Done(task) => task,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_no_server_is_named() {
    let config = StoreConfig { busy_timeout: Millis(500), ..StoreConfig::default() };
    let opened = async |url: &str| PostgresStore::open(url, Uuid::nil(), &config).await.err().unwrap();
    assert!(matches!(opened("postgres://").await, StoreError::Unreachable(_) | StoreError::Other(_)));
    assert!(matches!(opened("postgres://x@127.0.0.1:1/x").await, StoreError::Unreachable(_)));
    let database = Database::new().await;
    let wrong = database.url.replace(&database.name, "nowhere");
    match opened(&wrong).await {
        StoreError::Other(why) => assert!(why.contains("nowhere") && why.contains("3D000"), "{why}"),
        other => panic!("{other:?}"),
    }
    // A newer schema is refused untouched.
    open(&database).await.close().await;
    let mut c = database.connect().await;
    c.execute(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', true, '', 0)",
    )
    .await
    .unwrap();
    assert!(matches!(opened(&database.url).await, StoreError::Newer { found: 9999, .. }));
}

#[tokio::test]
async fn a_server_in_recovery_is_refused() {
    let database = Database::new().await;
    let mut c = database.connect().await;
    // What a copy says of itself, said by a function that is found first.
    for statement in [
        "CREATE SCHEMA copy",
        "CREATE FUNCTION copy.pg_is_in_recovery() RETURNS bool LANGUAGE sql AS 'SELECT true'",
    ] {
        c.execute(statement).await.unwrap();
    }
    let url = format!("{}?options=-csearch_path%3Dcopy%2Cpg_catalog%2Cpublic", database.url);
    match PostgresStore::open(&url, Uuid::nil(), &StoreConfig::default()).await.err() {
        Some(StoreError::Unreachable(why)) => assert!(why.contains("primary"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn lost_connections_are_opened_again() {
    let database = Database::new().await;
    let store = open(&database).await;
    let t = asking(1);
    store.insert(t.clone(), vec![vec![1].into()]).await.unwrap();
    futures::future::join_all((0..8).map(|_| store.get(t.id))).await;
    let mut c = database.connect().await;
    let end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    c.execute(end_all).await.unwrap();
    assert_eq!(store.get(t.id).await.unwrap().unwrap().pieces, 1);
    ok(store.update(t.id, Box::new(Ok), vec![vec![2].into()]).await);
    c.execute(end_all).await.unwrap();
    ok(store.update(t.id, Box::new(Ok), vec![vec![3].into()]).await);
    store.heartbeat(lease(7)).await.unwrap();
    assert_eq!(pieces(&*store, t.id).await, [[1], [2], [3]]);
    store.close().await;
    assert!(matches!(store.insert(task(2), Vec::new()).await, Err(StoreError::Closed)));
}

fn lease(boot: u128) -> Lease {
    Lease {
        boot: BootId(Uuid::from_u128(boot)),
        os_boot: Uuid::from_u128(1),
        until_boottime_ms: crate::base::boottime_ms() + 60_000,
    }
}

/// A process that stopped in the middle of a transaction holds up nobody but who needs its row, and not for
/// long.
#[tokio::test]
async fn a_held_row_is_waited_for_and_then_named() {
    let database = Database::new().await;
    let config = StoreConfig { busy_timeout: Millis(3000), ..StoreConfig::default() };
    let (store, stuck) = (ground_open(&database, &config).await, open(&database).await);
    let (held, free) = (task(1), task(2));
    for t in [&held, &free] {
        store.insert(t.clone(), Vec::new()).await.unwrap();
    }
    let mut c = options(&database.url, &config).unwrap().connect().await.unwrap();
    c.execute("BEGIN").await.unwrap();
    sqlx::query("SELECT 1 FROM tasks WHERE id = $1 FOR UPDATE")
        .bind(bytes(held.id))
        .execute(&mut c)
        .await
        .unwrap();
    let start = std::time::Instant::now();
    let (a, b) = tokio::join!(
        store.update(held.id, Box::new(end), Vec::new()),
        store.update(free.id, Box::new(end), Vec::new())
    );
    assert!(matches!(a, Err(StoreError::Locked(_))), "{a:?}");
    ok(b);
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(store.get(held.id).await.unwrap().unwrap().status, Status::Working, "reads wait for nobody");
    store.heartbeat(lease(7)).await.unwrap();
    // The server ends a transaction that does nothing.
    tokio::time::sleep(Duration::from_millis(3500)).await;
    ok(stuck.update(held.id, Box::new(end), Vec::new()).await);
    assert!(c.execute("COMMIT").await.is_err());
}

async fn ground_open(database: &Database, config: &StoreConfig) -> Arc<dyn Store> {
    database.open(config).await
}

#[tokio::test]
async fn others_hear_what_concerns_them() {
    let database = Database::new().await;
    let (mine, other) = (open(&database).await, open(&database).await);
    mine.heartbeat(lease(7)).await.unwrap();
    other.heartbeat(lease(8)).await.unwrap();
    let mut hints = mine.hints();
    let mut next =
        async || tokio::time::timeout(Duration::from_secs(20), hints.next()).await.expect("a hint");
    assert_eq!(next().await, Some(Hint::Any), "at first nobody knows what was missed");
    let t = asking(1);
    mine.insert(t.clone(), vec![vec![1].into()]).await.unwrap();
    let answer = |n: usize| {
        move |mut t: Task| {
            t.questions[n].answer = Some(Answer::Declined);
            Ok(t)
        }
    };
    // What the holder does itself it knows.
    ok(mine.update(t.id, Box::new(answer(0)), Vec::new()).await);
    ok(other.update(t.id, Box::new(answer(1)), Vec::new()).await);
    assert_eq!(next().await, Some(Hint::Task(t.id)));
    let release = |t: Task| Ok(Task { holder: None, status: Status::Working, input_deadline: None, ..t });
    ok(other.update(t.id, Box::new(release), Vec::new()).await);
    assert_eq!(next().await, Some(Hint::Resumable));
    mine.close().await;
    assert_eq!(next().await, None);
}

#[tokio::test]
async fn components_stay_while_they_are_named() {
    let database = Database::new().await;
    let (one, other) = (open(&database).await, open(&database).await);
    let bytes = vec![7; 3 << 20];
    let named = Digest::of(&bytes);
    one.put_component(named, bytes.clone()).await.unwrap();
    other.put_component(named, bytes.clone()).await.unwrap();
    assert_eq!(other.component(named).await.unwrap().as_deref(), Some(&bytes[..]));
    let unnamed = Digest::of(b"x");
    one.put_component(unnamed, b"x".to_vec()).await.unwrap();
    assert_eq!(one.component(Digest::of(b"y")).await.unwrap(), None);
    one.insert(Task { digest: named, ..task(1) }, Vec::new()).await.unwrap();
    let mut c = database.connect().await;
    c.execute("UPDATE components SET stored_at = now() - interval '1 day'").await.unwrap();
    one.sweep(UnixMillis(0), UnixMillis(0)).await.unwrap();
    assert!(one.component(named).await.unwrap().is_some());
    assert_eq!(one.component(unnamed).await.unwrap(), None);
    c.execute("UPDATE components SET bytes = 'y'").await.unwrap();
    assert!(matches!(one.component(named).await, Err(StoreError::Corrupt(_))));
}

/// What the proxy does with the next `COMMIT`s.
#[derive(Clone, Copy)]
enum Commits {
    Pass,
    /// The server gets it, and its answer is lost.
    LoseAnswer,
    /// It never arrives.
    Lose,
}

/// A proxy between a store and the server.
struct Proxy {
    port: u16,
    commits: Arc<Mutex<Commits>>,
    lost: Arc<AtomicUsize>,
}

impl Proxy {
    async fn new(database: &Database) -> Self {
        let url = url::Url::parse(&database.url).unwrap();
        let server = (url.host_str().unwrap().to_owned(), url.port().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (commits, lost) = (Arc::new(Mutex::new(Commits::Pass)), Arc::new(AtomicUsize::new(0)));
        let (ours, count) = (commits.clone(), lost.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server.clone()).await.unwrap();
                tokio::spawn(pass(client, server, ours.clone(), count.clone()));
            }
        });
        Self { port, commits, lost }
    }

    fn set(&self, commits: Commits) {
        *self.commits.lock().unwrap() = commits;
    }
}

async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    commits: Arc<Mutex<Commits>>,
    lost: Arc<AtomicUsize>,
) {
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            n = client.read(&mut up) => {
                let Ok(n @ 1..) = n else { return };
                let is_commit = up[..n].windows(7).any(|w| w == b"COMMIT\0");
                let what = *commits.lock().unwrap();
                if is_commit && matches!(what, Commits::Lose) {
                    lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                if server.write_all(&up[..n]).await.is_err() {
                    return;
                }
                if is_commit && matches!(what, Commits::LoseAnswer) {
                    // The server has it before the connection breaks.
                    let _ = server.read(&mut down).await;
                    lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
            n = server.read(&mut down) => {
                let Ok(n @ 1..) = n else { return };
                if client.write_all(&down[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_looked_up() {
    let database = Database::new().await;
    let proxy = Proxy::new(&database).await;
    let url = format!("{}?sslmode=disable", database.through(proxy.port));
    let store = PostgresStore::open(&url, Uuid::nil(), &StoreConfig::default()).await.unwrap();
    let t = task(1);
    store.insert(t.clone(), vec![vec![0].into()]).await.unwrap();
    for n in 1..5_u8 {
        proxy.set(Commits::LoseAnswer);
        ok(store.update(t.id, Box::new(Ok), vec![vec![n].into()]).await);
        proxy.set(Commits::Lose);
        let lost = store.update(t.id, Box::new(Ok), vec![vec![99].into()]).await;
        assert!(matches!(lost, Err(StoreError::Unreachable(_))), "{lost:?}");
    }
    proxy.set(Commits::Pass);
    ok(store.update(t.id, Box::new(Ok), vec![vec![5].into()]).await);
    assert_eq!(proxy.lost.load(Ordering::Relaxed), 8);
    assert_eq!(pieces(&*store, t.id).await, [[0], [1], [2], [3], [4], [5]]);
}

#[tokio::test]
async fn an_unknown_commit_waits_for_the_one_under_way() {
    let database = Database::new().await;
    open(&database).await.close().await;
    let config = StoreConfig::default();
    let shared = Arc::new(Shared {
        replica: Uuid::nil(),
        me: Mutex::default(),
        closing: AtomicBool::new(false),
        answer_within: Duration::from_secs(15),
    });
    let open = options(&database.url, &config).unwrap();
    let mut writer = Writer::open(open, shared, &config).await.unwrap();
    use crate::store::work::Commit as _;
    writer.commit(&[&Work::Insert(Box::new(task(1)), Vec::new())]).await.unwrap();
    assert!(writer.was_committed().await.unwrap());
    writer.skip_sequence();
    assert!(!writer.was_committed().await.unwrap());
    writer.commit(&[&Work::Insert(Box::new(task(2)), Vec::new())]).await.unwrap();
    writer.close().await;
}

/// Parked tasks may be many. Each look of every second must go over an index, and over entries that it
/// wants.
#[tokio::test]
async fn no_look_goes_over_all_parked_tasks() {
    let database = Database::new().await;
    let store = open(&database).await;
    let parked = |n: u64| Task {
        holder: None,
        ttl: Millis(1 << 40),
        input_deadline: Some(UnixMillis(1 << 40)),
        parked_at: Some(UnixMillis(1000)),
        ..asking(n)
    };
    for chunk in 0..10 {
        let inserts = (0..1000).map(|n| store.insert(parked(chunk * 1000 + n), vec![vec![1; 200].into()]));
        futures::future::try_join_all(inserts).await.unwrap();
    }
    let mut c = database.connect().await;
    c.execute("ANALYZE").await.unwrap();
    // All of them are on one component, and another one is revoked.
    let digest = crate::base::Digest([7; 32]);
    store.revoke(crate::store::Revoked { digest, at: UnixMillis(1), reason: None }).await.unwrap();
    let looks: [(&str, &[&str]); 5] = [
        (sql::CONDEMNED, &["100"]),
        (sql::RESUMABLE, &["5000", "2000", "100", "'{}'::bytea[]", "'{}'::bytea[]"]),
        (sql::UNATTENDED, &["2000"]),
        (sql::ORPHANS, &["5000", "'\\x07'"]),
        (sql::ATTENTION, &["'\\x07'", "2000"]),
    ];
    for (statement, values) in looks {
        let mut text = statement.to_owned();
        for (i, value) in values.iter().enumerate() {
            text = text.replace(&format!("${}", i + 1), value);
        }
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS OFF, TIMING OFF) {text}");
        let plan: Vec<String> =
            c.fetch_all(sqlx::AssertSqlSafe(explain)).await.unwrap().iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan on tasks"), "{statement}\n{plan}");
        assert!(!plan.contains("actual rows=10000"), "{statement}\n{plan}");
    }
    assert_eq!(store.count_live().await.unwrap().iter().map(|(_, n)| n).sum::<u64>(), 10_000);
}
