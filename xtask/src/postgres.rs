//! A PostgreSQL server for tests: its own data, port and password, from Debian's packages where this system
//! has none.

use std::{
    env, fs,
    io::Read as _,
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::sh;

/// Where tests find it, as an administrator of it, in a URL.
const ADDRESS: &str = "LAYBY_TESTS_POSTGRES";
/// Its programs, for tests that need a server of their own.
const PROGRAMS: &str = "LAYBY_TESTS_POSTGRES_PROGRAMS";
/// Debian's programs lie in a folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The oldest that the host takes.
const OLDEST: u32 = 15;

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stop it
    #[arg(long)]
    stop: bool,
}

/// Starts a server that stays, and prints what a shell reads by `eval "$(cargo xtask postgres)"`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let server = Postgres::of("shell")?;
    server.stop();
    if args.stop {
        return Ok(());
    }
    let server = std::mem::ManuallyDrop::new(server.start()?);
    println!("export {ADDRESS}={}", sh::quoted(&server.url));
    println!("export {PROGRAMS}={}", sh::quoted(&server.programs.to_string_lossy()));
    Ok(())
}

/// A server that is stopped when dropped, and its data.
pub(crate) struct Postgres {
    programs: PathBuf,
    /// The user and group that it runs as: it refuses to run as root.
    user: Option<(u32, u32)>,
    folder: PathBuf,
    url: String,
}

impl Postgres {
    /// One for the tests that this process starts; none where the environment names one.
    pub(crate) fn for_tests() -> Result<Option<Self>> {
        if env::var_os(ADDRESS).is_some() {
            return Ok(None);
        }
        let server = Self::of("tests")?;
        // One that was left by a process that was killed.
        server.stop();
        server.start().map(Some)
    }

    /// One for the benchmark: it keeps what it is told, as a real one does.
    pub(crate) fn for_bench() -> Result<Self> {
        let server = Self::of("bench")?;
        server.stop();
        server.start_with("-c fsync=on")
    }

    /// Where it is, as an administrator of it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Tells a program where it is.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env(ADDRESS, &self.url).env(PROGRAMS, &self.programs);
    }

    fn of(name: &str) -> Result<Self> {
        let programs = programs()?;
        let user = other_user()?;
        let below_target = sh::root().canonicalize()?.join("target/postgres");
        let folder = if reaches(user, &sh::root())? {
            below_target
        } else {
            // A checkout below a private folder, such as root's own.
            env::temp_dir().join("layby-postgres")
        };
        Ok(Self { programs, user, folder: folder.join(name), url: String::new() })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        // None of them needs to know where it was started, which its user may not be allowed to see.
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn start(self) -> Result<Self> {
        // What tests write need not outlive the machine.
        self.start_with("-c fsync=off")
    }

    fn start_with(mut self, durability: &str) -> Result<Self> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        fs::create_dir_all(&self.folder)?;
        let password = password()?;
        let file = self.folder.join("password");
        fs::write(&file, &password)?;
        if let Some((user, group)) = self.user {
            chown(&self.folder, Some(user), Some(group))?;
            chown(&file, Some(user), Some(group))?;
        }
        let mut init = self.command("initdb");
        init.arg("--pgdata").arg(self.data()).args(["--username=layby", "--auth=scram-sha-256"]);
        init.arg("--pwfile").arg(&file).args(["--encoding=UTF8", "--no-locale", "--no-sync"]);
        sh::run("initdb", &mut init)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // Each host has a handful of connections.
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' {durability} -c max_connections=400"
        );
        let mut start = self.command("pg_ctl");
        start.arg("start").arg("--wait").arg("--pgdata").arg(self.data());
        start.arg("--log").arg(self.folder.join("log")).arg("--options").arg(options);
        sh::run("pg_ctl start", &mut start)?;
        self.url = format!("postgres://layby:{password}@127.0.0.1:{port}/postgres");
        Ok(self)
    }

    /// Does nothing where it does not run.
    fn stop(&self) {
        if self.data().join("postmaster.pid").exists() {
            let mut stop = self.command("pg_ctl");
            stop.args(["stop", "--mode=immediate", "--pgdata"]).arg(self.data());
            if let Err(e) = sh::run("pg_ctl stop", &mut stop) {
                eprintln!("xtask: {e:#}");
            }
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if !self.url.is_empty() {
            self.stop();
        }
    }
}

/// The folder of the newest version's programs, which are installed where there is none.
fn programs() -> Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let by_hand = format!("the store's tests need PostgreSQL {OLDEST} or newer (initdb, pg_ctl, postgres)");
    let Some(installed) = sh::apt(&["postgresql"]) else { bail!("{by_hand}; this system has no apt-get") };
    installed.context(by_hand.clone())?;
    find().context(by_hand)
}

fn find() -> Option<PathBuf> {
    let debian = fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let all = env::split_paths(&path).chain(debian);
    let versions = all.filter_map(|folder| Some((version(&folder)?, folder)));
    versions.max_by_key(|(version, _)| *version).map(|(_, folder)| folder)
}

/// The main version of the programs in `folder`, where it is new enough.
fn version(folder: &Path) -> Option<u32> {
    let said = sh::output_of(Command::new(folder.join("postgres")).arg("--version"))?;
    let number = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let main = number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    (main >= OLDEST && folder.join("initdb").is_file()).then_some(main)
}

/// The user that Debian's package makes, where this process is root.
fn other_user() -> Result<Option<(u32, u32)>> {
    let id = |arguments: &[&str]| -> Result<u32> {
        let said = sh::output_of(Command::new("id").args(arguments));
        Ok(said.with_context(|| format!("id {}", arguments.join(" ")))?.trim().parse()?)
    };
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    Ok(Some((id(&["-u", "postgres"])?, id(&["-g", "postgres"])?)))
}

/// Whether the user may go through `folder` and all above it.
fn reaches(user: Option<(u32, u32)>, folder: &Path) -> Result<bool> {
    let Some((user, group)) = user else { return Ok(true) };
    let mut test = Command::new("test");
    test.arg("-x").arg(folder.canonicalize()?).uid(user).gid(group).current_dir("/");
    Ok(test.status()?.success())
}

/// 32 hexadecimal digits, so that no other user of this machine gets in.
fn password() -> Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
