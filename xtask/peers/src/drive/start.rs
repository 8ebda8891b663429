//! Starts calls and leaves them running.

use anyhow::Result;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    http::{Connection, Endpoint},
    mcp,
};

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The endpoint.
    #[arg(long)]
    url: String,
    /// A tool that works on past its deadline, or asks; may be given often.
    #[arg(long = "tool", required = true)]
    tools: Vec<String>,
    /// Its arguments, as JSON.
    #[arg(long, default_value = "{}", value_parser = |text: &str| serde_json::from_str::<Value>(text))]
    arguments: Value,
    /// How often to call each tool.
    #[arg(long, default_value_t = 1)]
    times: usize,
    /// The state that each is in once it is a task.
    #[arg(long, default_value = "working")]
    status: String,
}

/// Returns once each call is a task.
pub(super) async fn run(args: Args) -> Result<Value> {
    let endpoint = Endpoint::parse(&args.url)?;
    let mut calls = JoinSet::new();
    for tool in args.tools.iter().flat_map(|tool| std::iter::repeat_n(tool, args.times)) {
        let (endpoint, call) = (endpoint.clone(), mcp::call(&endpoint, tool, &args.arguments));
        let status = args.status.clone();
        calls.spawn(async move {
            let mut connection = Connection::open(&endpoint).await?;
            mcp::promoted(&mut connection, &call, &status).await
        });
    }
    let mut tasks = Vec::new();
    while let Some(task) = calls.join_next().await {
        tasks.push(task??);
    }
    Ok(json!({ "count": tasks.len(), "tasks": tasks }))
}
