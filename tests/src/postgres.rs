//! A database of its own on the PostgreSQL server that `cargo xtask test` starts, or a server of its own.

use std::{
    io::Read as _,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    str::FromStr as _,
    sync::atomic::{AtomicU32, Ordering},
};

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use sqlx_postgres::PgConnectOptions;
use tempfile::TempDir;

/// Where the server is, as an administrator of it.
const VARIABLE: &str = "LAYBY_TESTS_POSTGRES";

/// Makes an empty database; its URL.
///
/// # Panics
/// Without a server.
pub async fn database() -> String {
    let server = std::env::var(VARIABLE).unwrap_or_else(|_| {
        panic!("{VARIABLE} is not set: run `cargo xtask test`, or `eval \"$(cargo xtask postgres)\"` first")
    });
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("hosts_{}_{n}", std::process::id());
    let options = PgConnectOptions::from_str(&server).expect("the URL of a server");
    let mut c = options.connect().await.expect("a server");
    for statement in
        [format!("DROP DATABASE IF EXISTS {name}"), format!("CREATE DATABASE {name} TEMPLATE template0")]
    {
        c.execute(AssertSqlSafe(statement)).await.expect("an empty database");
    }
    c.close().await.expect("an end in order");
    let (before, _) = server.rsplit_once('/').expect("a URL with a database");
    format!("{before}/{name}")
}

/// Lets `ms` milliseconds pass for every task of the database: its times are by the server's clock, which no test can move.
///
/// # Panics
/// Without a server.
pub async fn age(url: &str, ms: u64) {
    let mut c =
        PgConnectOptions::from_str(url).expect("the URL of a database").connect().await.expect("a server");
    let aged = format!(
        "UPDATE tasks SET created_at = created_at - {ms}, updated_at = updated_at - {ms}, \
         expires_at = expires_at - {ms}, due_at = due_at - {ms}"
    );
    c.execute(AssertSqlSafe(aged)).await.expect("an update");
    c.close().await.expect("an end in order");
}

/// Where the programs of a server are.
const PROGRAMS: &str = "LAYBY_TESTS_POSTGRES_PROGRAMS";

/// A server of a test's own, which may be stopped; it ends with this value.
pub struct Cluster {
    folder: TempDir,
    programs: PathBuf,
    /// The user and group that it runs as: it refuses to run as root.
    user: Option<(u32, u32)>,
    port: u16,
    password: String,
}

impl Cluster {
    /// Makes one, and starts it.
    ///
    /// # Panics
    /// Without PostgreSQL's programs.
    pub fn start() -> Self {
        let programs = std::env::var_os(PROGRAMS).unwrap_or_else(|| panic!("{PROGRAMS} is not set"));
        let folder = TempDir::with_prefix("layby-postgres-").expect("a temporary folder");
        let id = |arguments: &[&str]| {
            let out = Command::new("id").args(arguments).output().expect("there is id").stdout;
            String::from_utf8_lossy(&out).trim().parse::<u32>().expect("a user of that name")
        };
        let user = (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])));
        let mut random = [0; 16];
        let mut source = std::fs::File::open("/dev/urandom").expect("randomness");
        source.read_exact(&mut random).expect("randomness");
        let port = free_port(u16::from_le_bytes([random[0], random[1]]));
        let password = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let cluster = Self { folder, programs: programs.into(), user, port, password };
        let file = cluster.folder.path().join("password");
        std::fs::write(&file, &cluster.password).expect("a file can be written");
        if let Some((user, group)) = user {
            for path in [cluster.folder.path(), &file] {
                std::os::unix::fs::chown(path, Some(user), Some(group)).expect("root may do that");
            }
        }
        let mut init = cluster.command("initdb");
        init.args([
            "--username=layby",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        ]);
        succeed(init.arg("--pwfile").arg(&file));
        cluster.go_on();
        cluster
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        command.arg("--pgdata").arg(self.folder.path().join("data"));
        command
    }

    fn control(&self, what: &str) -> Command {
        let mut command = self.command("pg_ctl");
        command.arg(what);
        command
    }

    /// Starts it again.
    ///
    /// # Panics
    /// If it does not start.
    pub fn go_on(&self) {
        // The kernel keeps what a stopped server had written.
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c max_connections=100",
            self.port
        );
        let log = self.folder.path().join("log");
        succeed(self.control("start").arg("--wait").arg("--log").arg(log).arg("--options").arg(options));
    }

    /// Stops it as a crash would: nobody is told, nothing is written.
    ///
    /// # Panics
    /// If it does not run.
    pub fn stop(&self) {
        succeed(self.control("stop").args(["--mode=immediate", "--wait"]));
    }

    /// Makes it a copy that takes no writes, from its next start.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn demote(&self) {
        let signal = self.folder.path().join("data/standby.signal");
        std::fs::write(&signal, "").expect("a file can be written");
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(&signal, Some(user), Some(group)).expect("root may do that");
        }
    }

    /// Makes the copy a server that takes writes.
    ///
    /// # Panics
    /// If it is none.
    pub fn promote(&self) {
        succeed(self.control("promote").arg("--wait"));
    }

    /// Its one database.
    pub fn url(&self) -> String {
        format!("postgres://layby:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!("-- the server's log:\n{log}");
        }
        // It may be stopped already.
        let _ = self.control("stop").args(["--mode=immediate", "--wait"]).stderr(Stdio::null()).status();
    }
}

/// A free port below those that the kernel gives to connections: while the server is away, none of them may take it.
fn free_port(start: u16) -> u16 {
    let ports = (0..12_000).map(|n| 20_000 + (start % 12_000 + n) % 12_000);
    let mut free = ports.filter(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().expect("a free port")
}

fn succeed(command: &mut Command) {
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?}: {status}");
}
