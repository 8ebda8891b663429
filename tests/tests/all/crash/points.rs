//! Every failpoint of the host, and what passes it.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use layby_tests::{command, guests};
use serde_json::json;

use super::{
    plans::{PLANS, Plan, plan},
    world::{Arm, Ends, FAILPOINTS, Store, World},
};

/// Scenarios that run beside each other.
const BESIDE: usize = 12;

/// What a kill leaves of a scenario.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Nothing is different.
    Same,
    /// Every task fails with one of these codes.
    Fails(&'static [&'static str]),
}

/// One kill.
#[derive(Clone, Copy)]
struct Row {
    point: &'static str,
    /// The passage that kills.
    nth: u32,
    /// The process that is killed.
    process: u32,
    plan: &'static str,
    then: Then,
}

/// Kills the first process at the first passage, and nothing is different.
const fn row(point: &'static str, plan: &'static str) -> Row {
    Row { point, nth: 1, process: 1, plan, then: Then::Same }
}

impl Row {
    const fn nth(self, nth: u32) -> Self {
        Self { nth, ..self }
    }

    const fn second(self) -> Self {
        Self { process: 2, ..self }
    }

    const fn fails(self, codes: &'static [&'static str]) -> Self {
        Self { then: Then::Fails(codes), ..self }
    }

    fn arm(&self) -> Arm {
        Arm { points: format!("{}=kill:{}", self.point, self.nth), process: self.process }
    }

    fn name(&self) -> String {
        format!("{} passage {} of process {}, {:?}", self.point, self.nth, self.process, self.plan)
    }
}

const PARKED: &str = "asks, parked";
const HELD: &str = "asks, held";

const BY_RETRY: &str = "asks by retries, parked";
const BY_RETRY_HELD: &str = "asks by retries, held";
const KEYED_RETRY: &str = "keyed, asks by retries";

/// What visits each failpoint.
const ROWS: &[Row] = &[
    row("store.before-begin", "works"),
    row("store.before-commit", "works"),
    row("store.after-commit", "works"),
    row("store.before-begin", PARKED).nth(3),
    row("store.before-commit", PARKED).nth(2),
    row("store.before-commit", PARKED).nth(3),
    row("store.before-commit", PARKED).nth(4),
    row("store.before-commit", PARKED).nth(5),
    row("store.before-commit", PARKED).nth(6),
    row("store.before-commit", PARKED).nth(7),
    row("store.before-commit", PARKED).nth(8),
    row("store.after-commit", PARKED).nth(2),
    row("store.after-commit", PARKED).nth(3),
    row("store.after-commit", PARKED).nth(4),
    row("store.after-commit", PARKED).nth(5),
    row("store.after-commit", PARKED).nth(6),
    row("store.after-commit", PARKED).nth(7),
    row("store.after-commit", PARKED).nth(8),
    row("task.promote.before", "works"),
    row("task.promote.after", "works"),
    row("task.admit.before", "keyed"),
    row("task.admit.after", "keyed"),
    row("task.reveal.before", "keyed"),
    row("task.reveal.after", "keyed"),
    row("task.ask.before", PARKED),
    row("task.ask.after", PARKED),
    row("task.ask.before", PARKED).nth(2),
    row("task.ask.after", HELD).nth(2),
    row("task.answers.before", PARKED),
    row("task.answers.after", PARKED),
    row("task.answers.before", HELD).nth(2),
    row("task.answers.after", HELD).nth(2),
    row("task.answers.after", PARKED).nth(3),
    row("task.time-out.before", "is not answered and goes on, parked"),
    row("task.time-out.after", "is not answered and goes on, parked"),
    row("task.time-out.before", "is not answered and goes on, held"),
    row("task.time-out.after", "is not answered and goes on, held"),
    row("task.progress.before", "reports"),
    row("task.progress.after", "reports"),
    row("task.cancel.before", "is cancelled, held"),
    row("task.cancel.after", "is cancelled, held"),
    row("task.cancel.before", "is cancelled, parked"),
    row("task.cancel.after", "is cancelled, parked"),
    row("task.settle.before", "works"),
    row("task.settle.after", "works"),
    row("task.settle.before", "is cancelled, held"),
    row("task.settle.after", "is cancelled, held"),
    row("task.settle.before", "is not answered and fails, held"),
    row("task.settle.before", "expires"),
    row("task.settle.before", "writes files"),
    row("task.settle.after", "writes files"),
    row("task.commit.after", "writes files").nth(3),
    row("file.before-start", "writes files").nth(4),
    row("file.after-start-commit", "writes files").nth(4),
    row("file.after-change", "writes files").nth(4),
    row("file.after-change", "writes files").nth(5),
    row("file.after-answer", "writes files").nth(4),
    row("task.abandon.before", "is cancelled, parked"),
    row("task.abandon.after", "is cancelled, parked"),
    row("task.abandon.before", "is not answered and fails, parked"),
    row("task.abandon.after", "is not answered and fails, parked"),
    row("task.abandon.before", "is left beside another").second(),
    row("task.abandon.after", "is left beside another").second(),
    row("task.park.before", PARKED),
    row("task.park.after", PARKED),
    row("task.park.before", "sleeps"),
    row("task.park.after", "sleeps"),
    row("task.park.after", PARKED).nth(3),
    row("task.claim.before", PARKED),
    row("task.claim.after", PARKED),
    row("task.claim.before", "sleeps"),
    row("task.claim.after", "sleeps"),
    row("task.claim.after", "is killed").second(),
    row("task.claim.after", PARKED).nth(3),
    row("task.live.before", PARKED),
    row("task.live.after", PARKED),
    row("task.live.before", "is killed").second(),
    row("task.live.after", "is left beside another").second(),
    row("task.hand-back.before", "is told to stop"),
    row("task.hand-back.after", "is told to stop"),
    row("task.hand-back.before", "is told to stop").nth(2),
    row("task.hand-back.after", "is told to stop").nth(2),
    row("task.orphan.before", "is killed").second(),
    row("task.orphan.after", "is killed").second(),
    row("task.orphan.before", "is left beside another").second(),
    row("task.orphan.after", "is left beside another").second(),
    row("task.pin.before", "outgrows its journal"),
    row("task.pin.after", "outgrows its journal").fails(&["not_resumable"]),
    row("task.commit.before", "works"),
    row("task.commit.after", "works"),
    row("task.commit.after", "works").nth(2),
    row("task.settle.before", "prints"),
    row("task.commit.before", "is told to stop"),
    row("task.commit.after", "is told to stop"),
    row("store.before-commit", BY_RETRY),
    row("store.before-commit", BY_RETRY).nth(2),
    row("store.before-commit", BY_RETRY).nth(3),
    row("store.before-commit", BY_RETRY).nth(4),
    row("store.before-commit", BY_RETRY).nth(5),
    row("store.before-commit", BY_RETRY).nth(6),
    row("store.after-commit", BY_RETRY),
    row("store.after-commit", BY_RETRY).nth(2),
    row("store.after-commit", BY_RETRY).nth(3),
    row("store.after-commit", BY_RETRY).nth(4),
    row("store.after-commit", BY_RETRY).nth(5),
    row("store.after-commit", BY_RETRY).nth(6),
    row("task.promote.before", BY_RETRY),
    row("task.promote.after", BY_RETRY),
    row("task.park.before", BY_RETRY),
    row("task.park.after", BY_RETRY),
    row("task.answers.before", BY_RETRY),
    row("task.answers.after", BY_RETRY),
    row("task.answers.before", BY_RETRY_HELD).nth(2),
    row("task.answers.after", BY_RETRY_HELD).nth(2),
    row("task.answers.after", BY_RETRY).nth(3),
    row("task.claim.before", BY_RETRY),
    row("task.claim.after", BY_RETRY).nth(2),
    row("task.live.after", BY_RETRY).nth(2),
    row("task.ask.before", BY_RETRY),
    row("task.ask.after", BY_RETRY),
    row("task.ask.before", BY_RETRY_HELD).nth(2),
    row("task.ask.after", BY_RETRY_HELD).nth(2),
    row("task.settle.before", BY_RETRY),
    row("task.settle.after", BY_RETRY),
    row("task.settle.before", BY_RETRY_HELD),
    row("task.settle.after", BY_RETRY_HELD),
    row("task.admit.after", KEYED_RETRY),
    row("task.ask.before", KEYED_RETRY),
    row("task.ask.after", KEYED_RETRY),
    row("task.answers.after", KEYED_RETRY).nth(2),
    row("task.settle.before", KEYED_RETRY),
    row("task.settle.after", KEYED_RETRY),
];

/// What the host lists.
async fn listed() -> BTreeSet<String> {
    let mut all = command::layby(&guests::target(), ["--version"]);
    all.env(FAILPOINTS, "list");
    let done = command::run(all).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    done.out.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn each_failpoint_has_a_scenario() {
    let listed = listed().await;
    let points = ROWS.iter().map(|row| row.point);
    let points = points.chain(crate::outgoing::FAILPOINTS).chain(crate::folders::FAILPOINTS);
    let points = points.chain(crate::commits::FAILPOINTS);
    let visited: BTreeSet<String> = points.map(str::to_owned).collect();
    let unvisited: Vec<_> = listed.difference(&visited).collect();
    assert!(unvisited.is_empty(), "no row of `ROWS` visits {unvisited:?}");
    let gone: Vec<_> = visited.difference(&listed).collect();
    assert!(gone.is_empty(), "the host has no failpoints {gone:?}");
    let used: BTreeSet<&str> = ROWS.iter().map(|row| row.plan).collect();
    let unused: Vec<_> = PLANS.iter().map(|plan| plan.name).filter(|name| !used.contains(name)).collect();
    assert!(unused.is_empty(), "no row uses {unused:?}");
}

/// The rows that `LAYBYTEST_CRASH_ROWS` names by a part of their name; all without it.
fn wanted() -> Vec<Row> {
    let only = std::env::var("LAYBYTEST_CRASH_ROWS").unwrap_or_default();
    ROWS.iter().filter(|row| row.name().contains(&only)).copied().collect()
}

async fn run(plan: &'static Plan, store: Store, arm: Option<Arm>) -> Result<Ends, String> {
    let scenario = async move {
        let mut world = World::begin(plan.policy, store, arm).await;
        (plan.run)(&mut world).await;
        world.finish().await
    };
    tokio::spawn(scenario).await.map_err(|e| {
        let panic = e.into_panic();
        let text = panic.downcast_ref::<String>().cloned();
        text.or(panic.downcast_ref::<&str>().map(|&s| s.to_owned())).unwrap_or_default()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 14)]
async fn a_kill_at_any_failpoint_changes_nothing() {
    kill_at(wanted(), Store::Sqlite).await;
}

/// Those of the database itself; the others' edges are the same as on SQLite, and are run by `LAYBYTEST_CRASH_ROWS`: with two
/// hosts on one server, and all else that CI runs beside, some rows do not come to their failpoint in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 14)]
async fn a_kill_at_any_edge_of_postgres_changes_nothing() {
    let chosen = std::env::var_os("LAYBYTEST_CRASH_ROWS").is_some();
    let rows = wanted().into_iter().filter(|row| chosen || row.point.starts_with("store."));
    kill_at(rows.collect(), Store::Postgres).await;
}

async fn kill_at(rows: Vec<Row>, store: Store) {
    let names: BTreeSet<&str> = rows.iter().map(|row| row.plan).collect();
    let undisturbed =
        stream::iter(names).map(|name| async move { (name, run(plan(name), store, None).await) });
    let undisturbed: BTreeMap<_, _> = undisturbed.buffer_unordered(BESIDE).collect().await;
    let base = |name: &str| match &undisturbed[name] {
        Ok(ends) => ends,
        Err(why) => panic!("undisturbed, {name:?} fails: {why}"),
    };
    let runs =
        rows.into_iter().map(|row| async move { (row, run(plan(row.plan), store, Some(row.arm())).await) });
    let runs: Vec<(Row, Result<Ends, String>)> = stream::iter(runs).buffer_unordered(BESIDE).collect().await;
    let wrong: Vec<String> = runs
        .iter()
        .filter_map(|(row, ends)| {
            let done = ends.clone().and_then(|ends| check(row, base(row.plan), ends));
            done.err().map(|why| format!("{}: {why}", row.name()))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} kills:\n{}", wrong.len(), runs.len(), wrong.join("\n"));
}

/// Compares with the undisturbed run.
fn check(row: &Row, base: &Ends, ends: Ends) -> Result<(), String> {
    match row.then {
        Then::Same if ends.tasks != base.tasks => {
            return Err(format!("it came to {:?} instead of {:?}", ends.tasks, base.tasks));
        }
        Then::Fails(codes)
            if !ends.tasks.iter().all(|t| codes.iter().any(|code| t["code"] == json!(code))) =>
        {
            return Err(format!("it came to {:?} instead of {codes:?}", ends.tasks));
        }
        _ => {}
    }
    // A call whose answer was lost, and that was sent again, may have become a task that nobody knows of.
    if ends.rows > base.rows + ends.repeated || (row.plan.starts_with("keyed") && ends.rows != base.rows) {
        return Err(format!("{} rows instead of {}", ends.rows, base.rows));
    }
    let resumed = ends.resumed.iter().zip(&base.resumed);
    // On a machine that is busy with other tests even a living host may lose its lease, and hands its tasks on.
    let said = ["the lease of this process has run out", "the lease is about to end"];
    let lapsed = said.iter().any(|said| ends.log.contains(said));
    if !lapsed && resumed.clone().any(|(now, before)| *now > before + 1) {
        let said = ends.log.lines().filter(|line| !line.contains(" INFO ")).collect::<Vec<_>>().join("\n");
        return Err(format!("resumed {:?} times instead of {:?}:\n{said}", ends.resumed, base.resumed));
    }
    // Its first line was committed long before it was killed.
    let lines = ends.log.matches("once only").count() - ends.log.matches("again once only").count();
    if row.plan == "prints" && lines != base.log.matches("again once only").count() {
        return Err(format!("what was printed before is in the log {lines} times"));
    }
    Ok(())
}
