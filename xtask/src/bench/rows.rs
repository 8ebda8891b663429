//! What is measured of a host that runs: calls, promotions, polls and memory.

use anyhow::Result;
use serde_json::Value;

use super::{
    Effort,
    data::Data,
    process::Programs,
    table::{Row, Table, Unit},
};
use crate::server::Server;

/// Connections of the rows that fill the server.
const MANY: usize = 64;

/// Tasks that the fastest polls are spread over. At most 20 polls a second of each are answered.
const POLLED: usize = 8192;

/// Plugins that spin at once.
const SPINNING: usize = 8;

/// Calls that run while memory is measured.
const RUNNING: usize = 50;

/// A server, and what to ask of it.
struct Contender {
    name: &'static str,
    server: usize,
    /// Further arguments of the driver.
    args: &'static [&'static str],
    /// Least share of the SDK's rate at [`MANY`] connections.
    target: Option<f64>,
}

const CONTENDERS: [Contender; 4] = [
    Contender { name: "bare axum echo", server: 0, args: &["--answer", "request"], target: None },
    Contender { name: "rmcp, native echo", server: 1, args: &[], target: None },
    Contender {
        name: "layby, minimal guest",
        server: 2,
        args: &["--tool", "echo_minimal", "--answer", "arguments"],
        target: Some(1.0),
    },
    Contender { name: "layby, SDK guest", server: 2, args: &[], target: Some(0.6) },
];

/// Calls that are answered at once, beside servers without a sandbox.
pub(super) fn inline(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    let data = Data::with(&programs.folder, "inline", &["echo", "echo-minimal"])?;
    let servers = [programs.peer("axum")?, programs.peer("rmcp")?, programs.host(&data)?];
    for connections in [1, 8, MANY] {
        let mut measured = [const { Vec::new() }; CONTENDERS.len()];
        // Turn by turn, so that a busy moment of the machine hits all alike.
        for _ in 0..effort.rounds {
            for (contender, summaries) in CONTENDERS.iter().zip(&mut measured) {
                let server = &servers[contender.server];
                summaries.push(drive(programs, server, "inline", connections, effort, contender.args)?);
            }
        }
        let mut rows: Vec<Row> = Vec::new();
        for (contender, summaries) in CONTENDERS.iter().zip(measured) {
            let mut row = Row::driven(contender.name, Unit::PerSecond, &median(summaries, "per_second"));
            if let Some(rmcp) = rows.get(1).map(Row::value) {
                let ratio = row.compare("rmcp", rmcp);
                if let Some(target) = contender.target.filter(|_| connections == MANY) {
                    row.target(format!("≥ {target:.2} × rmcp"), ratio >= target);
                }
            }
            rows.push(row);
        }
        let s = if connections == 1 { "" } else { "s" };
        table.add(&format!("inline calls, {connections} connection{s}"), rows);
    }
    Ok(())
}

/// Calls that ask at once, each then answered, beside what the disk does by itself.
pub(super) fn promote(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    let data = Data::with(&programs.folder, "promote", &["probe"])?;
    let server = programs.host(&data)?;
    let (mut disks, mut promotions) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        disks.push(programs.disk(effort.seconds, u32::try_from(MANY)?)?);
        promotions.push(drive(programs, &server, "promote", MANY, effort, &[])?);
    }
    let disk = median(disks, "grouped_per_second");
    let rate = |key: &str| disk[key].as_f64().unwrap_or(f64::NAN);
    let single = Row::new("disk: commits of one row", Unit::PerSecond, rate("single_per_second"));
    let grouped =
        Row::new(format!("disk: rows, {MANY} in a commit"), Unit::PerSecond, rate("grouped_per_second"));
    let promoted = median(promotions, "per_second");
    let mut row = Row::driven(format!("promoted and answered, {MANY} conn."), Unit::PerSecond, &promoted);
    let ratio = row.compare("disk's rows", grouped.value());
    row.target("≥ 0.50 × disk's rows", ratio >= 0.5);
    row.target("≥ 5,000 /s", row.value() >= 5000.0);
    let call = Row::driven("  of it: call to handle", Unit::P99, &promoted["call"]);
    let answer = Row::driven("  of it: answer to its taking", Unit::P99, &promoted["answer"]);
    table.add("promotions", vec![single, grouped, row, call, answer]);
    Ok(())
}

/// Polls: how many, and how late while plugins spin.
pub(super) fn poll(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    let mut data = Data::with(&programs.folder, "poll", &["probe"])?;
    let spinners: Vec<_> = (1..=SPINNING).map(|number| format!("spin{number}")).collect();
    for name in &spinners {
        // One without resources: their names have no prefix.
        data.add("plain", name, true)?;
    }
    let server = programs.host(&data)?;
    let tasks = POLLED.to_string();
    let most = drive(programs, &server, "poll", MANY, effort, &["--ended", "--tasks", &tasks])?;
    let rate = Row::driven(format!("polls of ended tasks, {MANY} conn."), Unit::PerSecond, &most);

    // Few enough that every one finds an idle server, many enough for a percentile.
    let paced = ["--rate", "500", "--tasks", "128"];
    let long = Effort { seconds: effort.seconds * 2.0, ..effort };
    let idle = drive(programs, &server, "poll", 16, long, &paced)?;
    let idle = Row::driven("p99 of 500 polls/s, idle", Unit::P99, &idle);
    let tools: Vec<_> = spinners.iter().map(|name| format!("{name}_spin")).collect();
    let mut start = vec!["start", "--url", &server.url];
    tools.iter().for_each(|tool| start.extend(["--tool", tool]));
    programs.drive(&start)?;
    let spin = drive(programs, &server, "poll", 16, long, &paced)?;
    let mut spin = Row::driven(format!("p99 of 500 polls/s, {SPINNING} plugins spin"), Unit::P99, &spin);
    let ratio = spin.compare("idle", idle.value());
    spin.target("≤ 5 × idle or 10 ms", ratio <= 5.0 || spin.value() <= 10_000.0);
    table.add("polls", vec![rate, idle, spin]);
    Ok(())
}

/// Resident memory, idle and for each call that runs.
pub(super) fn memory(programs: &Programs, table: &mut Table) -> Result<()> {
    let data = Data::with(&programs.folder, "memory", &["echo", "probe"])?;
    let server = programs.host(&data)?;
    let idle = server.resident()?;
    let naps = |times: usize| {
        let (times, arguments) = (times.to_string(), r#"{"ms":600000}"#);
        let start =
            ["start", "--url", &server.url, "--tool", "nap", "--arguments", arguments, "--times", &times];
        programs.drive(&start)
    };
    // The first pays for what all share.
    naps(1)?;
    let one = server.resident()?;
    naps(RUNNING)?;
    let many = server.resident()?;
    let each = as_f64(many.saturating_sub(one)) / as_f64(u64::try_from(RUNNING)?);
    table.add(
        "resident memory",
        vec![
            Row::new("idle, 2 plugins", Unit::Bytes, as_f64(idle)),
            Row::new(format!("each of {RUNNING} running calls"), Unit::Bytes, each),
        ],
    );
    Ok(())
}

/// Bytes of memory that are resident.
pub(super) fn resident(server: &Server) -> Result<f64> {
    Ok(as_f64(server.resident()?))
}

#[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
pub(super) fn as_f64(value: u64) -> f64 {
    value as f64
}

/// Runs the driver against `server` for one measurement.
pub(super) fn drive(
    programs: &Programs,
    server: &Server,
    mode: &str,
    connections: usize,
    effort: Effort,
    further: &[&str],
) -> Result<Value> {
    let (pid, connections) = (server.pid().to_string(), connections.to_string());
    let seconds = effort.seconds.to_string();
    let mut args = vec![mode, "--url", &server.url, "--pid", &pid];
    args.extend(["--connections", &connections, "--seconds", &seconds]);
    args.extend(further);
    programs.drive(&args)
}

/// The summary whose `key` is in the middle of all.
pub(super) fn median(mut summaries: Vec<Value>, key: &str) -> Value {
    let number = |summary: &Value| summary[key].as_f64().unwrap_or(f64::NAN);
    summaries.sort_by(|a, b| number(a).total_cmp(&number(b)));
    let middle = summaries.len() / 2;
    summaries.into_iter().nth(middle).unwrap_or_default()
}
