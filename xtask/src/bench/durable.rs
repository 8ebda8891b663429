//! Runs that outlive their instance: what recording costs, how soon a parked task goes on, and many of them at once.

use std::{
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    Effort, Group,
    data::Data,
    process::Programs,
    rows::{as_f64, drive, median, resident},
    table::{Row, Table, Unit},
};
use crate::{postgres::Postgres, server::Server};

/// Connections of the rows that fill the server.
const MANY: usize = 64;
/// Tasks that are parked on one host.
const PARKED: u32 = 100_000;
/// Tasks that go on at once: by the time, or because their host crashed.
const AT_ONCE: u32 = 10_000;
/// Ended tasks that polls are spread over: at most 20 polls a second of each are answered.
const POLLED: u32 = 8192;
/// Tasks that a host parks by itself until its caches are full; what half as many more take is measured.
const PARKED_LIVE: u32 = 10_000;
/// Parked tasks whose answers' latency is measured.
const ANSWERED: u32 = 300;
/// Calls a second beside what goes on.
const PACE: [&str; 2] = ["--rate", "500"];
/// Connections of these calls.
const PACED: usize = 16;

/// Naps are tasks at once, and whatever waits is parked at once.
const PARKS: &str = r#"
[call]
linger = "0s"
[tools.nap.call]
deadline = "1ms"
linger = "0s"
"#;
/// The same, but what waits keeps its instance.
const LINGERS: &str = r#"
[tools.nap.call]
deadline = "1ms"
linger = "1m"
"#;
/// How soon a crashed host's tasks may be taken over.
const LEASE: &str = "[store]\nlease = \"5s\"\ntakeover = \"1s\"\n";
/// After this they may.
const LEASE_OVER: Duration = Duration::from_millis(6500);

/// Measures one group of rows.
type Rows = fn(&Programs, Effort, &mut Table) -> Result<()>;

/// All of them, in the order of the table.
pub(super) const GROUPS: [(Group, Rows); 6] = [
    (Group::Journal, overhead),
    (Group::Resume, latency),
    (Group::Parked, parked),
    (Group::AtOnce, due),
    (Group::AtOnce, crash),
    (Group::Settle, rates),
];

/// A host's folder with the tools `echo`, `ask` and `nap`.
fn data(programs: &Programs, name: &str, policy: &str) -> Result<Data> {
    let mut data = Data::new(&programs.folder, name)?;
    data.add("echo", "echo", false)?;
    data.add_with("probe", "", policy)?;
    Ok(data)
}

/// An inline call whose run is recorded, and one whose journal holds nothing.
fn overhead(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    let mut without = Data::new(&programs.folder, "unrecorded")?;
    without.add_with("echo", "journal = \"0B\"\n", "")?;
    let with = Data::with(&programs.folder, "recorded", &["echo"])?;
    let servers = [programs.host(&without)?, programs.host(&with)?];
    let mut measured = [Vec::new(), Vec::new()];
    // Short and often: the two must meet the same moments of the machine.
    let short = Effort { seconds: effort.seconds / 4.0, ..effort };
    for round in 0..effort.rounds * 6 {
        for turn in [round % 2, 1 - round % 2] {
            measured[turn].push(drive(programs, &servers[turn], "inline", 1, short, &[])?);
        }
    }
    let [without, with] = measured.map(|summaries| median(summaries, "cpu_us"));
    let without = Row::driven("inline calls, 1 conn., journal of 0 bytes", Unit::Cpu, &without);
    let mut with = Row::driven("the same, recorded", Unit::Cpu, &with);
    with.compare("unrecorded", without.value());
    table.add("recording", vec![without, with]);
    Ok(())
}

/// From an answer to what it leads to.
fn latency(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    let data = data(programs, "latency", PARKS)?;
    let server = programs.host(&data)?;
    let file = path(&data)?;
    let tasks = (ANSWERED / effort.share).to_string();
    let found = programs.drive(&["resume", "--url", &server.url, "--database", &file, "--tasks", &tasks])?;
    let mut rows = Vec::new();
    for (name, key) in [("answer to the next question, parked", "ask"), ("answer to the end, parked", "end")]
    {
        let mut row = Row::driven(name, Unit::P50, &found[key]);
        row.target("p50 ≤ 5 ms", row.value() <= 5000.0);
        rows.push(row);
    }
    table.add("park and resume", rows);
    Ok(())
}

/// A host with very many parked tasks, beside one without.
fn parked(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    let count = PARKED / effort.share;
    let hosts = [data(programs, "parked-none", PARKS)?, data(programs, "parked-many", PARKS)?];
    for (data, parked) in hosts.iter().zip([0, count]) {
        let server = programs.host(data)?;
        let ended = start(programs, &server, "nap", r#"{"ms":200}"#, "working")?;
        programs.seed(data, &ended, "ended", POLLED - 1)?;
        let asks = start(programs, &server, "ask", "{}", "input_required")?;
        programs.seed(data, &asks, "parked", 0)?;
        // So many rows keep the database locked for longer than a host may be without it.
        drop(server);
        programs.seed(data, &asks, "parked", parked)?;
    }
    let files = [path(&hosts[0])?, path(&hosts[1])?];
    let polled = POLLED.to_string();
    let mut starts = [Vec::new(), Vec::new()];
    for turn in (0..effort.rounds).flat_map(|_| 0..2) {
        let begin = Instant::now();
        let server = programs.host(&hosts[turn])?;
        starts[turn].push(begin.elapsed().as_secs_f64() * 1e3);
        drop(server);
    }
    let servers = [programs.host(&hosts[0])?, programs.host(&hosts[1])?];
    let mut polls = [Vec::new(), Vec::new()];
    // Short and often: the two must meet the same moments of the machine.
    let short = Effort { seconds: effort.seconds / 4.0, ..effort };
    for round in 0..effort.rounds * 4 {
        for turn in [round % 2, 1 - round % 2] {
            let ended = ["--ended", "--tasks", &polled, "--database", &files[turn]];
            polls[turn].push(drive(programs, &servers[turn], "poll", MANY, short, &ended)?);
        }
    }
    let [none, many] = [resident(&servers[0])?, resident(&servers[1])?];
    let live = ["--tasks", &polled, "--database", &files[1]];
    let waiting = drive(programs, &servers[1], "poll", MANY, effort, &live)?;
    drop(servers);
    let name = format!("{} parked", super::table::thousands(f64::from(count)));
    let mut each =
        Row::new(format!("resident memory for each, {name}"), Unit::Bytes, (many - none) / f64::from(count));
    each.target("≤ 512 B", each.value() <= 512.0);
    let [none, many] = starts.map(middle);
    let none = Row::new("start to ready, none parked", Unit::Millis, none);
    let mut many = Row::new(format!("start to ready, {name}"), Unit::Millis, many);
    many.target("≤ 2,000 ms", many.value() <= 2000.0);
    // Turn by turn: the machine's own speed changes more between turns than the two differ.
    let rate = |summary: &Value| summary["per_second"].as_f64().unwrap_or(f64::NAN);
    let ratio = middle(polls[0].iter().zip(&polls[1]).map(|(none, many)| rate(many) / rate(none)).collect());
    let [poll_none, poll_many] = polls.map(|summaries| median(summaries, "per_second"));
    let poll_none =
        Row::driven(format!("polls of ended tasks, {MANY} conn., none parked"), Unit::PerSecond, &poll_none);
    let mut poll_many = Row::driven(format!("the same, {name}"), Unit::PerSecond, &poll_many);
    poll_many.compared("without, turn by turn", ratio);
    poll_many.target("≥ 0.90 × without", ratio >= 0.9);
    let waiting =
        Row::driven(format!("polls of parked tasks, {MANY} conn., {name}"), Unit::PerSecond, &waiting);
    let own = parks_itself(programs, effort)?;
    table.add("many parked tasks", vec![none, many, each, own, poll_none, poll_many, waiting]);
    Ok(())
}

/// What tasks leave behind in the memory of the host that parked them.
fn parks_itself(programs: &Programs, effort: Effort) -> Result<Row> {
    let data = data(programs, "parks", PARKS)?;
    // The database's own pages, which are bounded, would still be coming in.
    data.configure("[store]\npage-cache = \"256KiB\"\n")?;
    let server = programs.host(&data)?;
    let make = |count: u32| {
        let count = count.to_string();
        let short = Effort { seconds: 0.2, ..effort };
        drive(programs, &server, "poll", MANY, short, &["--tasks", &count])
    };
    let count = PARKED_LIVE / effort.share;
    // What all share comes with the first.
    make(count)?;
    let count = count / 2;
    let before = server.resident()?;
    make(count)?;
    let grown = as_f64(server.resident()?.saturating_sub(before));
    let mut row = Row::new(
        format!("the same, {count} parked by the host itself"),
        Unit::Bytes,
        grown / f64::from(count),
    );
    if effort.share == 1 {
        row.target("≤ 512 B", row.value() <= 512.0);
    }
    Ok(row)
}

/// Sleeps that end together.
fn due(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    const SLEEP_MS: u64 = 12_000;
    let count = AT_ONCE / effort.share;
    let data = data(programs, "due", PARKS)?;
    let server = programs.host(&data)?;
    let idle = drive(programs, &server, "paced", PACED, effort, &PACE)?;
    let idle = Row::driven("p99 of 500 calls/s, idle", Unit::P99, &idle);
    let due = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + Duration::from_millis(SLEEP_MS);
    let nap = start(programs, &server, "nap", &format!(r#"{{"ms":{SLEEP_MS}}}"#), "working")?;
    programs.seed(&data, &nap, "parked", count - 1)?;
    let late = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + Duration::from_millis(500) > due;
    ensure!(
        !late,
        "this machine is too busy: {count} copies of a sleep of {SLEEP_MS} ms were there only as it ended"
    );
    let (file, from) = (path(&data)?, due.as_millis().to_string());
    let further = [&PACE[..], &["--until-ended", &file, "--from", &from]].concat();
    let long = Effort { seconds: 120.0, ..effort };
    let busy = drive(programs, &server, "paced", PACED, long, &further)?;
    let count = super::table::thousands(f64::from(count));
    let done = busy["ended_after"].as_f64().context("no end of the tasks")? * 1e3;
    let mut calls = Row::driven("  p99 of 500 calls/s until then", Unit::P99, &busy);
    let ratio = calls.compare("idle", idle.value());
    calls.target("≤ 5 × idle", ratio <= 5.0);
    let all = Row::new(format!("{count} sleeps due at once, until all have ended"), Unit::Millis, done);
    table.add("sleeps", vec![idle, all, calls]);
    Ok(())
}

/// Tasks that a killed host had at work.
fn crash(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    let count = AT_ONCE / effort.share;
    let data = data(programs, "crash", LINGERS)?;
    data.configure(LEASE)?;
    let server = programs.host(&data)?;
    const STEP_MS: u64 = 6000;
    let began = Instant::now();
    let arguments = format!(r#"{{"ms":{},"step_ms":{STEP_MS}}}"#, 2 * STEP_MS);
    let nap = start(programs, &server, "nap", &arguments, "working")?;
    // Its first step is in its journal then, and the second has begun.
    thread::sleep(Duration::from_millis(STEP_MS + 1500).saturating_sub(began.elapsed()));
    programs.seed(&data, &nap, "live", count - 1)?;
    server.kill()?;
    thread::sleep(LEASE_OVER);
    thread::sleep(Duration::from_millis(2 * STEP_MS + 200).saturating_sub(began.elapsed()));
    let begin = Instant::now();
    let server = programs.host(&data)?;
    let ready = begin.elapsed().as_secs_f64() * 1e3;
    let file = path(&data)?;
    let further = [&PACE[..], &["--until-ended", &file, "--warmup", "0"]].concat();
    let long = Effort { seconds: 120.0, ..effort };
    let busy = drive(programs, &server, "paced", PACED, long, &further)?;
    let done = begin.elapsed().as_secs_f64() * 1e3;
    let idle = drive(programs, &server, "paced", PACED, effort, &PACE)?;
    let idle = Row::driven("p99 of 500 calls/s, idle", Unit::P99, &idle);
    let mut calls = Row::driven("  p99 of 500 calls/s until then", Unit::P99, &busy);
    calls.compare("idle", idle.value());
    let count = super::table::thousands(f64::from(count));
    let rows = vec![
        Row::new(format!("start to ready, {count} tasks of a dead host"), Unit::Millis, ready),
        Row::new("start until all have ended", Unit::Millis, done),
        calls,
        idle,
    ];
    table.add("after a crash", rows);
    Ok(())
}

/// Calls that become tasks and end, on both databases.
fn rates(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    let settle = |data: &Data, name: &str| -> Result<Row> {
        let server = programs.host(data)?;
        let mut measured = Vec::new();
        for _ in 0..effort.rounds {
            measured.push(drive(
                programs,
                &server,
                "settle",
                MANY,
                effort,
                &["--arguments", r#"{"ms":20}"#],
            )?);
        }
        let row = format!("promoted and settled, {MANY} conn., {name}");
        Ok(Row::driven(row, Unit::PerSecond, &median(measured, "per_second")))
    };
    let mut rows = vec![settle(&data(programs, "settle-sqlite", LINGERS)?, "SQLite")?];
    match Postgres::for_bench() {
        Ok(postgres) => {
            let mut data = data(programs, "settle-postgres", LINGERS)?;
            data.keep_in(postgres.url().to_owned());
            rows.push(settle(&data, "PostgreSQL")?);
        }
        Err(e) => eprintln!("xtask: no row for PostgreSQL: {e:#}"),
    }
    table.add("promoted by time", rows);
    Ok(())
}

/// Calls `tool`, which must become a task in the state `status`; its id.
fn start(programs: &Programs, server: &Server, tool: &str, arguments: &str, status: &str) -> Result<String> {
    let args = ["start", "--url", &server.url, "--tool", tool, "--arguments", arguments, "--status", status];
    let started = programs.drive(&args)?;
    Ok(started["tasks"][0].as_str().context("the driver names no task")?.to_owned())
}

fn path(data: &Data) -> Result<String> {
    data.file().into_os_string().into_string().ok().context("a path that is no text")
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
