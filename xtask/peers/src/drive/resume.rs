//! How soon a parked task goes on: from the answer's acknowledgement until its next state is committed.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{
    http::{Connection, Endpoint},
    mcp,
    stats::Latencies,
};
use crate::database::{Database, Seen};

/// How long a task may take to its next state.
const WITHIN: Duration = Duration::from_secs(30);

/// Between two looks at a task. Looking without any pause kept this core so busy that the other's syncs of the disk did
/// not come back.
const LOOK: Duration = Duration::from_micros(100);

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The endpoint.
    #[arg(long)]
    url: String,
    /// The host's `layby.db`: looked at ten times a millisecond, which polls of a task may not be.
    #[arg(long)]
    database: PathBuf,
    /// How many tasks, each with two questions: the first answer leads to the second, the second to the end.
    #[arg(long, default_value_t = 200)]
    tasks: usize,
}

/// One task after another, so that each finds an idle host.
pub(super) async fn run(args: Args) -> Result<Value> {
    let endpoint = Endpoint::parse(&args.url)?;
    let mut database = Database::open(&args.database).await?;
    let mut connection = Connection::open(&endpoint).await?;
    let call = mcp::call(&endpoint, "ask", &json!({ "rounds": 2 }));
    let (mut asks, mut ends) = (Latencies::default(), Latencies::default());
    let begin = Instant::now();
    for _ in 0..args.tasks {
        let task = mcp::promoted(&mut connection, &call, "input_required").await?;
        for (round, latencies) in [(1, &mut asks), (2, &mut ends)] {
            until(&mut database, &task, |seen| seen.parked).await?;
            let key = key_of(&mut connection, &endpoint, &task).await?;
            let answer = mcp::accept(&endpoint, &task, &key, &json!({ "value": "yes" }));
            mcp::result(&connection.exchange(&answer).await?).context("answering")?;
            let acknowledged = Instant::now();
            until(&mut database, &task, |seen| seen.ended || seen.questions > round).await?;
            latencies.add(acknowledged.elapsed());
        }
        let state = mcp::result(&connection.exchange(&mcp::get(&endpoint, &task)).await?)?;
        if state["status"] != "completed" {
            bail!("task {task} should have completed: {state}");
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok(json!({ "ask": asks.summary(seconds), "end": ends.summary(seconds) }))
}

async fn until(database: &mut Database, task: &str, done: impl Fn(Seen) -> bool) -> Result<()> {
    let give_up = Instant::now() + WITHIN;
    loop {
        let seen = database.see(task).await?;
        if done(seen) {
            return Ok(());
        }
        if Instant::now() > give_up {
            bail!("task {task} is still {seen:?} after {WITHIN:?}");
        }
        // The runtime's own timer is too coarse, and nothing else happens in this process.
        std::thread::sleep(LOOK);
    }
}

/// The key of the one question that `task` asks.
async fn key_of(connection: &mut Connection, endpoint: &Endpoint, task: &str) -> Result<String> {
    let state = mcp::result(&connection.exchange(&mcp::get(endpoint, task)).await?)?;
    let asked = state["inputRequests"].as_object().and_then(|asked| asked.keys().next());
    asked.cloned().with_context(|| format!("task {task} asks nothing: {state}"))
}
