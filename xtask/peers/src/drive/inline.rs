//! Calls that are answered at once.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Load,
    http::{Connection, Endpoint},
    mcp,
    stats::{Latencies, Window},
};

/// Where an answer is the same no more.
const META: &[u8] = b"\"_meta\"";

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: Load,
    /// The tool to call.
    #[arg(long, default_value = "echo")]
    tool: String,
    /// Text for the argument `text`.
    #[arg(long, default_value = "The quick brown fox jumps over the lazy dog.")]
    text: String,
    /// What comes back.
    #[arg(long, value_enum, default_value_t = Shape::Text)]
    answer: Shape,
}

/// What the server answers with.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Shape {
    /// A result with the text.
    Text,
    /// A result with all arguments as text.
    Arguments,
    /// The request itself.
    Request,
}

/// Measures.
pub(super) async fn run(args: Args) -> Result<Value> {
    let endpoint = Endpoint::parse(&args.load.url)?;
    let arguments = json!({ "text": args.text });
    let request = mcp::call(&endpoint, &args.tool, &arguments);
    let mut connection = Connection::open(&endpoint).await?;
    let answer = connection.exchange(&request).await?;
    let body: Value = serde_json::from_slice(answer.body).context("the answer is not JSON")?;
    let right = match args.answer {
        Shape::Text => is_result(&body, |text| text == args.text),
        Shape::Arguments => {
            is_result(&body, |text| serde_json::from_str::<Value>(text).is_ok_and(|a| a == arguments))
        }
        Shape::Request => body["params"]["arguments"] == arguments,
    };
    ensure!(answer.status == 200 && right, "a wrong answer, status {}: {body}", answer.status);
    // What the call took, in `_meta`, differs from call to call.
    let same = answer.body.windows(META.len()).position(|part| part == META).unwrap_or(answer.body.len());
    let first: Arc<[u8]> = answer.body[..same].into();
    closed_loop(&args.load, &endpoint, request.into(), first).await
}

fn is_result(body: &Value, expected: impl Fn(&str) -> bool) -> bool {
    let result = &body["result"];
    result["content"][0]["text"].as_str().is_some_and(expected) && result["isError"] != true
}

/// The same request over and over; every answer must begin with `expected`.
async fn closed_loop(
    load: &Load,
    endpoint: &Endpoint,
    request: Arc<[u8]>,
    expected: Arc<[u8]>,
) -> Result<Value> {
    let begin = Instant::now() + load.warmup();
    let end = begin + load.time();
    let mut workers = JoinSet::new();
    for _ in 0..load.connections {
        let connection = Connection::open(endpoint).await?;
        workers.spawn(worker(connection, request.clone(), expected.clone(), begin, end));
    }
    let window = Window::watch(load.pid, begin, end).await?;
    let mut all = Latencies::default();
    while let Some(done) = workers.join_next().await {
        all.merge(done??);
    }
    ensure!(all.count() > 0, "no request was answered in time");
    let cpu = window.cpu_us(all.count());
    let mut summary = all.summary(window.seconds);
    summary["cpu_us"] = json!(cpu);
    Ok(summary)
}

async fn worker(
    mut connection: Connection,
    request: Arc<[u8]>,
    expected: Arc<[u8]>,
    begin: Instant,
    end: Instant,
) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut sent = Instant::now();
    loop {
        let answer = connection.exchange(&request).await?;
        if answer.status != 200 || !answer.body.starts_with(&expected) {
            let body = String::from_utf8_lossy(answer.body);
            bail!("status {}, another answer than the first: {body}", answer.status);
        }
        // The end of one is the start of the next: one reading of the clock a request.
        let now = Instant::now();
        if now >= end {
            return Ok(latencies);
        }
        if sent >= begin {
            latencies.add(now - sent);
        }
        sent = now;
    }
}
