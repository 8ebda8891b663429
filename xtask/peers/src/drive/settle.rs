//! Calls that become tasks because time passes, and end: a row is written twice for each.

use std::{
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
    promote::completed,
    stats::{Latencies, Window, number},
};

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: Load,
    /// A tool that ends soon after its deadline.
    #[arg(long, default_value = "nap")]
    tool: String,
    /// Its arguments, as JSON.
    #[arg(long, default_value = "{}", value_parser = |text: &str| serde_json::from_str::<Value>(text))]
    arguments: Value,
}

/// Measures from the first call until the last task has completed.
pub(super) async fn run(args: Args) -> Result<Value> {
    let load = &args.load;
    let endpoint = Endpoint::parse(&load.url)?;
    let call: Arc<[u8]> = mcp::call(&endpoint, &args.tool, &args.arguments).into();
    let begin = Instant::now();
    let end = begin + load.time();
    let mut workers = JoinSet::new();
    for _ in 0..load.connections {
        let connection = Connection::open(&endpoint).await?;
        workers.spawn(worker(connection, endpoint.clone(), call.clone(), end));
    }
    let window = Window::watch(load.pid, begin, end).await?;
    let mut all = Latencies::default();
    while let Some(done) = workers.join_next().await {
        all.merge(done??);
    }
    // All are completed by now.
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(all.count() > 0, "no task was made in time");
    let cpu = window.cpu_us(all.count());
    let count = all.count();
    let mut summary = all.summary(seconds);
    summary["cpu_us"] = json!(cpu);
    summary["per_second"] = json!(number(count) / seconds);
    Ok(summary)
}

/// Calls until `end`, then waits for its last task: those before it ended sooner, or it waits for nothing else.
async fn worker(
    mut connection: Connection,
    endpoint: Endpoint,
    call: Arc<[u8]>,
    end: Instant,
) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut last = None;
    while Instant::now() < end {
        let sent = Instant::now();
        let result = mcp::result(&connection.exchange(&call).await?)?;
        // On a busy host one may end before its deadline is looked at: that is no task.
        if result["resultType"] == "task" {
            last = result["taskId"].as_str().map(str::to_owned);
            latencies.add(sent.elapsed());
        }
    }
    if let Some(task) = last {
        tokio::time::sleep(Duration::from_millis(20)).await;
        completed(&endpoint, &task).await?;
    }
    Ok(latencies)
}
