//! Calls that ask at once: each becomes a task with a durable row, and is answered.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Load,
    http::{Connection, Endpoint},
    mcp,
    stats::{Latencies, Window},
};

/// One in so many tasks is polled until it has completed.
const SAMPLE: usize = 50;

/// How long a sampled task may take to complete after the last answer.
const COMPLETES_WITHIN: Duration = Duration::from_secs(30);

/// Below what the host allows for one task.
const POLL: Duration = Duration::from_millis(100);

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    asking: Asking,
}

/// A tool that asks one form at once.
#[derive(Clone, clap::Args)]
pub(super) struct Asking {
    /// The tool to call, without arguments.
    #[arg(long, default_value = "ask")]
    pub(super) tool: String,
    /// The key of its question, a form with one text, `value`.
    #[arg(long, default_value = "question")]
    key: String,
}

impl Asking {
    pub(super) fn call(&self, endpoint: &Endpoint) -> Vec<u8> {
        mcp::call(endpoint, &self.tool, &json!({}))
    }

    /// Answers the question of `task`.
    pub(super) async fn answer(
        &self,
        connection: &mut Connection,
        endpoint: &Endpoint,
        task: &str,
    ) -> Result<()> {
        let update = mcp::accept(endpoint, task, &self.key, &json!({ "value": "yes" }));
        mcp::result(&connection.exchange(&update).await?)
            .with_context(|| format!("answering task {task}"))?;
        Ok(())
    }
}

/// What one connection did.
#[derive(Default)]
struct Done {
    calls: Latencies,
    answers: Latencies,
    pairs: Latencies,
    sample: Vec<String>,
}

/// Measures.
pub(super) async fn run(args: Args) -> Result<Value> {
    let load = &args.load;
    let endpoint = Endpoint::parse(&load.url)?;
    let begin = Instant::now() + load.warmup();
    let end = begin + load.time();
    let call: Arc<[u8]> = args.asking.call(&endpoint).into();
    let mut workers = JoinSet::new();
    for _ in 0..load.connections {
        let connection = Connection::open(&endpoint).await?;
        workers.spawn(worker(connection, endpoint.clone(), call.clone(), args.asking.clone(), begin, end));
    }
    let window = Window::watch(load.pid, begin, end).await?;
    let mut all = Done::default();
    while let Some(done) = workers.join_next().await {
        let done = done??;
        all.calls.merge(done.calls);
        all.answers.merge(done.answers);
        all.pairs.merge(done.pairs);
        all.sample.extend(done.sample);
    }
    ensure!(all.pairs.count() > 0, "no task was promoted and answered in time");
    for task in &all.sample {
        completed(&endpoint, task).await?;
    }
    let cpu = window.cpu_us(all.pairs.count());
    let mut summary = all.pairs.summary(window.seconds);
    summary["cpu_us"] = json!(cpu);
    summary["call"] = all.calls.summary(window.seconds);
    summary["answer"] = all.answers.summary(window.seconds);
    summary["seen_completed"] = json!(all.sample.len());
    Ok(summary)
}

async fn worker(
    mut connection: Connection,
    endpoint: Endpoint,
    call: Arc<[u8]>,
    asking: Asking,
    begin: Instant,
    end: Instant,
) -> Result<Done> {
    let mut done = Done::default();
    let mut number = 0_usize;
    loop {
        let sent = Instant::now();
        let task = mcp::promoted(&mut connection, &call, "input_required").await?;
        let promoted = Instant::now();
        asking.answer(&mut connection, &endpoint, &task).await?;
        let answered = Instant::now();
        if number.is_multiple_of(SAMPLE) {
            done.sample.push(task);
        }
        number += 1;
        if answered >= end {
            return Ok(done);
        }
        if sent >= begin {
            done.calls.add(promoted - sent);
            done.answers.add(answered - promoted);
            done.pairs.add(answered - sent);
        }
    }
}

/// Waits until `task` has completed.
pub(super) async fn completed(endpoint: &Endpoint, task: &str) -> Result<()> {
    let mut connection = Connection::open(endpoint).await?;
    let get = mcp::get(endpoint, task);
    let give_up = Instant::now() + COMPLETES_WITHIN;
    loop {
        let state = mcp::result(&connection.exchange(&get).await?)?;
        match state["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("working" | "input_required") if Instant::now() < give_up => tokio::time::sleep(POLL).await,
            _ => bail!("task {task} did not complete within {COMPLETES_WITHIN:?} of its answer: {state}"),
        }
    }
}
