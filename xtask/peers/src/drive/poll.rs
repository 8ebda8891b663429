//! Polls, spread over many tasks so that none is polled too often.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Load,
    http::{Connection, Endpoint},
    mcp,
    promote::{Asking, completed},
    stats::{Latencies, Window},
};
use crate::database::Database;

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    asking: Asking,
    /// How many tasks to make and poll in turn.
    #[arg(long, default_value_t = 64)]
    tasks: usize,
    /// Answer the tasks first, so that they have ended.
    #[arg(long)]
    ended: bool,
    /// Polls a second over all connections; without it, as many as are answered.
    #[arg(long)]
    rate: Option<f64>,
    /// Make no tasks: poll those of this database that live, or with `--ended` those that do not.
    #[arg(long)]
    database: Option<PathBuf>,
}

/// Measures.
pub(super) async fn run(args: Args) -> Result<Value> {
    let load = &args.load;
    let endpoint = Endpoint::parse(&load.url)?;
    let shares = match &args.database {
        Some(file) => find(&args, &endpoint, file).await?,
        None => prepare(&args, &endpoint).await?,
    };
    let begin = Instant::now() + load.warmup();
    let end = begin + load.time();
    let step = args.rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
    let connections = u32::try_from(load.connections)?;
    let mut workers = JoinSet::new();
    for (number, requests) in (0_u32..).zip(shares) {
        let connection = Connection::open(&endpoint).await?;
        let pace = step.map(|step| (Instant::now() + step * number, step * connections));
        workers.spawn(worker(connection, requests, pace, begin, end));
    }
    let window = Window::watch(load.pid, begin, end).await?;
    let mut all = Latencies::default();
    while let Some(done) = workers.join_next().await {
        all.merge(done??);
    }
    ensure!(all.count() > 0, "no poll was answered in time");
    let cpu = window.cpu_us(all.count());
    let mut summary = all.summary(window.seconds);
    summary["cpu_us"] = json!(cpu);
    Ok(summary)
}

/// Polls of tasks that are there, a share for each connection.
async fn find(args: &Args, endpoint: &Endpoint, file: &Path) -> Result<Vec<Vec<Arc<[u8]>>>> {
    let ids = Database::open(file).await?.ids(args.ended, u32::try_from(args.tasks)?).await?;
    let connections = args.load.connections.max(1);
    ensure!(ids.len() >= connections, "there are {} tasks to poll, and {connections} connections", ids.len());
    let mut shares = vec![Vec::new(); connections];
    for (number, id) in ids.iter().enumerate() {
        shares[number % connections].push(mcp::get(endpoint, id).into());
    }
    Ok(shares)
}

/// Makes the tasks; returns for each connection the polls of its share.
async fn prepare(args: &Args, endpoint: &Endpoint) -> Result<Vec<Vec<Arc<[u8]>>>> {
    let connections = args.load.connections.max(1);
    ensure!(args.tasks >= connections, "each connection needs a task: at least {connections}");
    let call: Arc<[u8]> = args.asking.call(endpoint).into();
    let mut makers = JoinSet::new();
    for number in 0..connections {
        let share = args.tasks / connections + usize::from(number < args.tasks % connections);
        let (endpoint, call, asking, ended) =
            (endpoint.clone(), call.clone(), args.asking.clone(), args.ended);
        makers.spawn(async move {
            let mut connection = Connection::open(&endpoint).await?;
            let mut tasks = Vec::new();
            for _ in 0..share {
                let task = mcp::promoted(&mut connection, &call, "input_required").await?;
                if ended {
                    asking.answer(&mut connection, &endpoint, &task).await?;
                }
                tasks.push(task);
            }
            if ended {
                for task in &tasks {
                    completed(&endpoint, task).await?;
                }
            }
            anyhow::Ok(tasks.iter().map(|task| mcp::get(&endpoint, task).into()).collect())
        });
    }
    let mut shares = Vec::new();
    while let Some(share) = makers.join_next().await {
        shares.push(share??);
    }
    Ok(shares)
}

/// Sends its requests in turn: each at its time where there is a pace, else as soon as it can.
async fn worker(
    mut connection: Connection,
    requests: Vec<Arc<[u8]>>,
    mut pace: Option<(Instant, Duration)>,
    begin: Instant,
    end: Instant,
) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    for request in requests.iter().cycle() {
        let mut sent = Instant::now();
        if let Some((due, step)) = &mut pace {
            if sent < *due {
                tokio::time::sleep_until((*due).into()).await;
                sent = Instant::now();
            } else {
                // Kept waiting by the poll before: that is this one's latency too.
                sent = *due;
            }
            *due += *step;
        }
        // Measured work would only be noise in parsing; the shape was checked when the task was made.
        let answer = connection.exchange(request).await?;
        ensure!(
            answer.status == 200 && contains(answer.body, b"\"taskId\""),
            "status {}: {}",
            answer.status,
            String::from_utf8_lossy(answer.body)
        );
        let now = Instant::now();
        if now >= end {
            break;
        }
        if sent >= begin {
            latencies.add(now - sent);
        }
    }
    Ok(latencies)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
