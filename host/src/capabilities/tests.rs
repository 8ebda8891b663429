#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Hand-written guests against the real engine: what ends a run, and how.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;

use super::*;
use crate::{
    base::{ByteSize, Digest},
    engine::Engine,
};

/// A plugin whose core module has `rest`, and `body` in `call-tool`. Its `$ok` is a result without content;
/// `(global.get $out)` has room to make another.
fn guest(rest: &str, body: &str) -> Vec<u8> {
    wat::parse_str(text(rest, body)).unwrap()
}

fn text(rest: &str, body: &str) -> String {
    let core = format!(
        r#"(core module (;0;)
            (import "layby:plugin/call@1.0.0" "request-input" (func $ask (param i32 i32 i32)))
            (import "layby:plugin/call@1.0.0" "report-progress" (func $report (param f64 i32 f64 i32 i32 i32)))
            (import "layby:plugin/call@1.0.0" "log" (func $log (param i32 i32 i32)))
            (memory (export "memory") 1)
            (global $out i32 (i32.const 1024))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
            (func $ok (result i32) (global.get $out))
            (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32) (global.get $out))
            {rest}
            (func (export "layby:plugin/tools@1.0.0#call-tool") (param i32 i32 i32 i32) (result i32) {body}))"#
    );
    include_str!("tests/plugin.wat").replace("@CORE@", &core)
}

fn request() -> Request {
    Request::Tool { name: "tool".into(), arguments: "{}".into() }
}

/// The tool's answer in what a call brings.
fn ended((outcome, used): (Result<Response, Abort>, Used)) -> (Outcome, Used) {
    let outcome = outcome.map(|response| match response {
        Response::Tool(answer) => answer,
        other => panic!("not a tool's: {other:?}"),
    });
    (outcome, used)
}

#[derive(Default)]
struct Told {
    asked: Mutex<Vec<Asked>>,
    progress: Mutex<Vec<f64>>,
    logged: Mutex<Vec<String>>,
}

impl Caller for Told {
    fn progress(&self, progress: f64, _: Option<f64>, _: Option<String>) {
        self.progress.lock().unwrap().push(progress);
    }
    fn cancelled(&self) -> bool {
        false
    }
    fn supports(&self, kind: QuestionKind) -> bool {
        kind == QuestionKind::Roots
    }
    fn request_input(
        &self,
        requests: Vec<Asked>,
        _: bool,
    ) -> BoxFuture<'_, Result<Vec<Answer>, wit_call::InputError>> {
        let answers = requests.iter().map(|_| Answer::Declined).collect();
        self.asked.lock().unwrap().extend(requests);
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(answers)
        })
    }
    fn sleeps(&self, _: Duration) {}
    fn woke(&self) {}
    fn commit(&self) -> BoxFuture<'_, Result<(), Stopping>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn granted(&self) -> Option<Arc<Granted>> {
        Some(Arc::default())
    }
    fn changed(&self, _: wit_call::Change) {}
    fn log(&self, _: Audience, _: wit_call::LogLevel, message: &str) {
        self.logged.lock().unwrap().push(message.to_owned());
    }
}

struct Bench {
    engine: Arc<Engine>,
    linked: Linked,
    limits: Limits,
    told: Arc<Told>,
}

type Outcome = Result<Result<wit_types::ToolResult, wit_types::ToolError>, Abort>;

impl Bench {
    fn new() -> Self {
        Self::with_room(2)
    }

    fn with_room(runs: u32) -> Self {
        let engine = Engine::open(None, runs).unwrap();
        let linked = Linked::new(&engine).unwrap();
        let limits = Limits { fuel: 50_000_000, memory: ByteSize::mib(1), ..Limits::default() };
        Self { engine, linked, limits, told: Arc::default() }
    }

    fn prepare(&self, bytes: &[u8]) -> anyhow::Result<Prepared> {
        Ok(self.linked.prepare(&self.engine.component(Digest::of(bytes), bytes)?, bytes)?)
    }

    fn setup(&self) -> Setup {
        Setup::fresh(self.limits.clone(), Arc::default(), self.told.clone(), [7; 32], 10_000)
    }

    async fn call(&self, bytes: &[u8]) -> (Outcome, Used) {
        ended(call(&self.prepare(bytes).unwrap(), self.setup(), &request()).await)
    }

    async fn limit(&self, bytes: &[u8]) -> (&'static str, String) {
        match self.call(bytes).await.0 {
            Err(Abort::Limit { name, value, .. }) => (name, value),
            other => panic!("no limit was hit: {other:?}"),
        }
    }

    async fn trap(&self, bytes: &[u8]) -> String {
        match self.call(bytes).await.0 {
            Err(Abort::Trap(text)) => text,
            other => panic!("no trap: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_plugin_answers_and_its_use_is_measured() {
    let bench = Bench::new();
    let (outcome, used) = bench.call(&guest("", "(call $ok)")).await;
    let result = outcome.unwrap().unwrap();
    assert!(result.content.is_empty() && result.structured_content.is_none() && result.meta.is_none());
    assert_eq!(used.memory, 64 << 10);
    assert!((1..1000).contains(&used.fuel), "{used:?}");
    let again = bench.call(&guest("", "(call $ok)")).await.1;
    assert_eq!(again.fuel, used.fuel);
    let prepared = bench.prepare(&guest("", "(call $ok)")).unwrap();
    assert!(list(&prepared, bench.setup()).await.unwrap().tools.is_empty());
}

#[tokio::test]
async fn fuel_ends_a_loop() {
    let bench = Bench::new();
    let spin = guest("", "(loop $l (br $l)) (call $ok)");
    let (outcome, used) = bench.call(&spin).await;
    assert!(matches!(outcome, Err(Abort::Limit { name: "fuel", .. })), "{outcome:?}");
    assert_eq!(used.fuel, bench.limits.fuel);
}

#[tokio::test]
async fn a_loop_yields_and_ends_when_dropped() {
    let mut bench = Bench::new();
    bench.limits.fuel = u64::MAX >> 1;
    let prepared = bench.prepare(&guest("", "(loop $l (br $l)) (call $ok)")).unwrap();
    let request = request();
    let run = call(&prepared, bench.setup(), &request);
    let timeout = tokio::time::timeout(std::time::Duration::from_millis(50), run).await;
    assert!(timeout.is_err(), "one thread served both the guest and the timer");
}

#[tokio::test]
async fn memory_counts_over_all_memories_even_where_the_guest_goes_on() {
    let bench = Bench::new();
    let grow = guest("", "(drop (memory.grow (i32.const 16))) (call $ok)");
    assert_eq!(bench.limit(&grow).await, ("memory", "1MiB".into()));
    let fits = guest("", "(drop (memory.grow (i32.const 15))) (call $ok)");
    assert_eq!(bench.call(&fits).await.1.memory, 1 << 20);
    let two = guest("(memory $b 8)", "(drop (memory.grow $b (i32.const 8))) (call $ok)");
    assert_eq!(bench.limit(&two).await.0, "memory");
    let beyond = guest("", "(drop (memory.grow (i32.const 70000))) (call $ok)");
    assert_eq!(bench.limit(&beyond).await.0, "memory");
    let at_start = guest("(memory $b 16)", "(call $ok)");
    assert_eq!(bench.limit(&at_start).await.0, "memory");
    // Its own declared maximum is no limit of ours.
    let own = guest("(memory $b 1 2)", "(drop (memory.grow $b (i32.const 3))) (call $ok)");
    assert!(bench.call(&own).await.0.is_ok());
}

#[tokio::test]
async fn traps_say_what_happened_on_their_first_line() {
    let bench = Bench::new();
    let first = |text: String| text.lines().next().unwrap().to_owned();
    let text = bench.trap(&guest("", "(unreachable)")).await;
    assert!(first(text).contains("`unreachable`"));
    let deep = guest("(func $f (param i64) (call $f (local.get 0)))", "(call $f (i64.const 1)) (call $ok)");
    assert!(first(bench.trap(&deep).await).contains("call stack exhausted"));
    let text = bench.trap(&guest("", "(drop (i32.load (i32.const -1))) (call $ok)")).await;
    assert!(first(text).contains("out of bounds"));
    let table = guest(
        "(table $t 1 funcref)",
        "(drop (table.grow $t (ref.null func) (i32.const 2000000))) (call $ok)",
    );
    assert!(bench.call(&table).await.0.is_ok(), "a refused table is the guest's to handle");
}

#[tokio::test]
async fn a_large_result_is_not_taken() {
    let mut bench = Bench::new();
    bench.limits.memory = ByteSize::mib(64);
    bench.limits.output = ByteSize::kib(100);
    // `structured-content` is a string of that many zero bytes.
    let of = |bytes: u32| {
        let body = format!(
            "(drop (memory.grow (i32.const 900)))
             (i32.store8 offset=12 (global.get $out) (i32.const 1))
             (i32.store offset=16 (global.get $out) (i32.const 65536))
             (i32.store offset=20 (global.get $out) (i32.const {bytes}))
             (call $ok)"
        );
        guest("", &body)
    };
    assert!(bench.call(&of(100 << 10)).await.0.is_ok());
    assert_eq!(bench.limit(&of((100 << 10) + 1)).await, ("output", "100KiB".into()));
    assert_eq!(bench.limit(&of(50 << 20)).await.0, "output");
}

#[tokio::test]
async fn no_room_is_the_hosts_failure() {
    let bench = Bench::with_room(0);
    let prepared = bench.prepare(&guest("", "(loop $l (br $l)) (call $ok)")).unwrap();
    let (request, mut runs) = (request(), Vec::new());
    for _ in 0..40 {
        runs.push(Box::pin(call(&prepared, bench.setup(), &request)));
    }
    let (ended, ..) = futures::future::select_all(runs).await;
    assert!(matches!(ended.0, Err(Abort::Host(_))), "{:?}", ended.0);
}

/// A module that asks for the roots, under the key `k`, `count` times in each of `rounds`.
fn asks(rounds: u32, count: u32, key: &str) -> Vec<u8> {
    // Records of 28 bytes from 8192 on: key (pointer, length), then the case (3: roots).
    let body = format!(
        "(local $i i32) (local $p i32)
         (local.set $p (i32.const 8192))
         (loop $fill
            (i32.store (local.get $p) (i32.const 512))
            (i32.store offset=4 (local.get $p) (i32.const {len}))
            (i32.store8 offset=8 (local.get $p) (i32.const 3))
            (local.set $p (i32.add (local.get $p) (i32.const 28)))
            (br_if $fill (i32.lt_u (local.get $p) (i32.const {end}))))
         (loop $ask
            (call $ask (i32.const 8192) (i32.const {count}) (i32.const 2048))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $ask (i32.lt_u (local.get $i) (i32.const {rounds}))))
         ;; The case of the last answer: 0 for answers, 1 for an error, whose case follows.
         (if (i32.load8_u (i32.const 2048)) (then
            (i32.store8 offset=12 (global.get $out) (i32.const 1))
            (i32.store offset=16 (global.get $out) (i32.load (i32.const 2056)))
            (i32.store offset=20 (global.get $out) (i32.load (i32.const 2060)))))
         (call $ok)",
        len = key.len(),
        end = 8192 + 28 * count.max(1),
    );
    guest(&format!("(data (i32.const 512) {key:?})"), &body)
}

#[tokio::test]
async fn questions_reach_the_caller_and_are_counted() {
    let mut bench = Bench::new();
    bench.limits.questions = 6;
    let (outcome, _) = bench.call(&asks(2, 3, "k")).await;
    assert!(outcome.unwrap().unwrap().structured_content.is_none());
    assert_eq!(bench.told.asked.lock().unwrap().len(), 6);
    assert_eq!(bench.limit(&asks(3, 3, "k")).await, ("questions", "6".into()));
}

#[tokio::test]
async fn a_malformed_question_is_the_plugins_to_hear() {
    let bench = Bench::new();
    for (count, key, reason) in
        [(17, "k", "1 to 16"), (0, "k", "1 to 16"), (1, "layby/x", "host's own"), (1, "a b", "`key`")]
    {
        let result = bench.call(&asks(1, count, key)).await.0.unwrap().unwrap();
        let said = result.structured_content.expect("an error");
        assert!(said.contains(reason), "{count} {key}: {said}");
    }
    assert!(bench.told.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn progress_is_thinned() {
    let bench = Bench::new();
    let body = "(local $x f64)
        (loop $l
            (call $report (local.get $x) (i32.const 0) (f64.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
            (local.set $x (f64.add (local.get $x) (f64.const 1)))
            (br_if $l (f64.lt (local.get $x) (f64.const 5000))))
        (call $ok)";
    bench.call(&guest("", body)).await.0.unwrap().unwrap();
    let kept = bench.told.progress.lock().unwrap().len();
    // Ten a second; the loop takes well under 9 of them.
    assert!((10..100).contains(&kept), "{kept}");
}

#[tokio::test]
async fn a_flood_in_the_log_is_cut_with_one_notice() {
    let mut bench = Bench::new();
    bench.limits.stderr = ByteSize(1000);
    let body = "(local $i i32)
        (loop $l
            (call $log (i32.const 1) (i32.const 0) (i32.const 100))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const 100))))
        (call $ok)";
    bench.call(&guest("", body)).await.0.unwrap().unwrap();
    let logged = bench.told.logged.lock().unwrap();
    assert_eq!(logged.len(), 11);
    assert!(logged[10].contains("`stderr` (1000B)"), "{}", logged[10]);
}

#[tokio::test]
async fn any_version_of_the_same_major_number_is_called() {
    let bench = Bench::new();
    let later =
        text("", "(call $ok)").replace("tools@1.0.0", "tools@1.7.2").replace("call@1.0.0", "call@1.0.9");
    bench.call(&wat::parse_str(later).unwrap()).await.0.unwrap().unwrap();
}

#[test]
fn the_wrong_world_is_told_in_words() {
    let bench = Bench::new();
    let refuse = |text: &str| bench.prepare(&wat::parse_str(text).unwrap()).err().unwrap().to_string();
    let refused = refuse("(component)");
    assert!(
        refused.contains("nor a function that could be a tool") && refused.contains("exports nothing"),
        "{refused}"
    );
    let refused = refuse(r#"(component (import "wasi:nn/graph@0.2.0" (instance (export "f" (func)))))"#);
    assert!(refused.contains("wasi:nn/graph"), "{refused}");
    let other = r#"(component (instance $i) (export "layby:plugin/tools@0.2.0" (instance $i)))"#;
    let refused = refuse(other);
    assert!(refused.contains("exports `layby:plugin/tools@0.2.0`"), "{refused}");
    let empty = r#"(component (instance $i) (export "layby:plugin/tools@1.0.0" (instance $i)))"#;
    let refused = refuse(empty);
    assert!(refused.contains("list-tools"), "{refused}");
}
