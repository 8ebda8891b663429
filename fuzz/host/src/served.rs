//! The host that the targets of HTTP ask: with tools of every kind, and short times.

use std::{
    net::SocketAddr,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use layby::{
    base::{Digest, Millis},
    commands::fuzzing::{Answered, Asked, Host},
    config::{AuthConfig, Config},
};
use serde_json::Value;

/// The token that the second door knows.
pub(crate) const TOKEN: &str = "layby_fuzz";

/// Where the host believes to listen, and what else it may be called.
pub(crate) const ADDRESS: &str = "127.0.0.1:7331";
pub(crate) const NAME: &str = "tools.example";
pub(crate) const ORIGIN: &str = "https://app.example";

/// Requests after which the folders of the process are looked at.
const LOOK_AFTER: usize = 1 << 12;

/// The one host of this process.
pub(crate) fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| start().expect("a host"))
}

fn start() -> Result<Host, Box<dyn std::error::Error>> {
    let folder = folder();
    let plugins = folder.join("plugins");
    std::fs::create_dir_all(&plugins)?;
    let named = crate::make::plugin("named", include_str!("../plugins/named.wat"));
    std::fs::write(plugins.join("named.wasm"), named)?;
    std::fs::write(
        plugins.join("named.toml"),
        "[grants]\nask = [\"form\", \"url https://\", \"sampling\", \"roots\"]\n",
    )?;
    std::fs::write(plugins.join("plain.wasm"), wat::parse_str(include_str!("../plugins/plain.wat"))?)?;

    let mut config = Config::default();
    config.serve.plugins = plugins;
    config.serve.data = folder.join("data");
    config.serve.allowed_hosts = vec![NAME.to_owned()];
    config.serve.allowed_origins = vec![ORIGIN.to_owned()];
    config.serve.max_sessions = 64;
    config.catalog.settle = Millis(1);
    // Nobody comes too often, and few tasks are left behind: they end by themselves.
    for rate in [&mut config.host.calls, &mut config.host.polls, &mut config.host.requests] {
        *rate = u32::MAX;
    }
    for rate in [&mut config.callers.calls, &mut config.callers.polls, &mut config.callers.requests] {
        *rate = u32::MAX;
    }
    (config.host.live_tasks, config.host.waiting, config.host.mrtr_waiting) = (256, 16, 128);
    (config.callers.live_tasks, config.host.mrtr_waiting_each) = (128, 64);
    (config.host.concurrency, config.host.guest_threads) = (16, 1);
    (config.call.deadline, config.call.hold) = (Millis(100), Millis(200));
    (config.call.linger, config.call.grace, config.call.absence) = (Millis(0), Millis(50), Millis(1000));
    (config.call.input_deadline, config.call.push_wait) = (Millis(2000), Millis(50));
    config.store.tombstones = Millis(1000);
    let line = format!("fuzz:{}", Digest::of(TOKEN.as_bytes()));
    let tokens = AuthConfig { tokens: vec![line], ..AuthConfig::default() };
    let address: SocketAddr = ADDRESS.parse()?;
    Ok(Host::start(config, &tokens, address)?)
}

fn folder() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("{PLACE}{}", std::process::id()))
}

/// The beginning of the name of the host's folder.
const PLACE: &str = "layby-fuzz-";

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Asks, and looks at what holds for every answer; none where HTTP's own types refuse the request.
pub(crate) fn ask(tokens: bool, asked: Asked, pieces: Duration) -> Option<Answered> {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    // What an answer says again is no secret: the fuzzer learns texts that it is compared with.
    let fields = asked.headers.iter().flat_map(|(name, value)| [name, value]);
    let names_it = [&asked.target, &asked.body].into_iter().chain(fields).any(|part| has(part, PLACE));
    let answered = host().answer(tokens, asked, pieces)?;
    if ASKED.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_AFTER) {
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        assert!(open < 500, "{open} descriptors are open");
    }
    let text = String::from_utf8_lossy(&answered.body);
    assert!(names_it || !has(&answered.body, PLACE), "a path of the host's: {text}");
    let known = [200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 429, 431, 503];
    assert!(known.contains(&answered.status), "{}: {text}", answered.status);
    for (name, value) in &answered.headers {
        assert!(!value.iter().any(|b| b.is_ascii_control()), "{name}");
    }
    if header(&answered, "content-type") == Some(b"application/json") && !answered.body.is_empty() {
        message(&serde_json::from_slice(&answered.body).expect("JSON"));
    }
    Some(answered)
}

/// The header `name` of an answer.
pub(crate) fn header<'a>(answered: &'a Answered, name: &str) -> Option<&'a [u8]> {
    answered.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
}

/// What holds for every message of the host's.
fn message(message: &Value) {
    if message.get("resource").is_some() || message.get("status").is_some() {
        return;
    }
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let error = &message["error"];
    assert_eq!(error.is_null(), message.get("result").is_some(), "{message}");
    if error.is_null() {
        return;
    }
    let code = error["data"]["code"].as_str().unwrap_or_else(|| panic!("no stable code: {message}"));
    assert_ne!(code, "host_failure", "{message}");
    let number = error["code"].as_i64().expect("a number");
    let kept = (-32768..=-32000).contains(&number);
    let ours = [-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022];
    assert!(!kept || ours.contains(&number), "{message}");
}
