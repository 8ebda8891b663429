//! Inline calls at a fixed rate, for a time or until a host has no live task any more: what others feel meanwhile.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Load,
    http::{Connection, Endpoint},
    mcp,
    stats::{Latencies, Window},
};
use crate::database::Database;

/// How often the database is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: Load,
    /// Calls a second over all connections.
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Go on until this database has no live task, and `--seconds` at most.
    #[arg(long)]
    until_ended: Option<PathBuf>,
    /// Milliseconds since 1970 before which nothing is measured.
    #[arg(long)]
    from: Option<u64>,
}

/// Measures.
pub(super) async fn run(args: Args) -> Result<Value> {
    let load = &args.load;
    let endpoint = Endpoint::parse(&load.url)?;
    let request: Arc<[u8]> = mcp::call(&endpoint, "echo", &json!({ "text": "still there?" })).into();
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let wait = args.from.map(Duration::from_millis).map(|from| from.saturating_sub(since_1970));
    let begin = Instant::now() + wait.unwrap_or_else(|| load.warmup());
    let end = begin + load.time();
    let step = Duration::from_secs_f64(1.0 / args.rate);
    // Not sooner: a host that cannot keep pace would have fallen behind before anything is measured.
    let first = begin.checked_sub(load.warmup()).unwrap_or(begin).max(Instant::now());
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    let connections = u32::try_from(load.connections)?;
    for number in 0..connections {
        let connection = Connection::open(&endpoint).await?;
        let pace = Pace { due: first + step * number, step: step * connections, begin };
        workers.spawn(worker(connection, request.clone(), pace, over.clone()));
    }
    let (window, ended) = match &args.until_ended {
        None => (Window::watch(load.pid, begin, end).await?, None),
        Some(file) => {
            let mut database = Database::open(file).await?;
            let window = Window::begin(load.pid, begin).await?;
            while database.live().await? > 0 {
                if Instant::now() > end {
                    bail!("{} tasks still live after {} s", database.live().await?, load.seconds);
                }
                tokio::time::sleep(LOOK).await;
            }
            let took = begin.elapsed().as_secs_f64();
            (window.end()?, Some(took))
        }
    };
    over.store(true, Ordering::Relaxed);
    let mut all = Latencies::default();
    while let Some(done) = workers.join_next().await {
        all.merge(done??);
    }
    ensure!(all.count() > 0, "no call was answered in time");
    let cpu = window.cpu_us(all.count());
    let mut summary = all.summary(window.seconds);
    summary["cpu_us"] = json!(cpu);
    summary["ended_after"] = json!(ended);
    Ok(summary)
}

struct Pace {
    due: Instant,
    step: Duration,
    begin: Instant,
}

/// A call that had to wait for the one before counts from when it was due.
async fn worker(
    mut connection: Connection,
    request: Arc<[u8]>,
    mut pace: Pace,
    over: Arc<AtomicBool>,
) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    while !over.load(Ordering::Relaxed) {
        let now = Instant::now();
        let sent = if now < pace.due {
            tokio::time::sleep_until(pace.due.into()).await;
            Instant::now()
        } else {
            pace.due
        };
        pace.due += pace.step;
        mcp::result(&connection.exchange(&request).await?)?;
        if sent >= pace.begin {
            latencies.add(sent.elapsed());
        }
    }
    Ok(latencies)
}
