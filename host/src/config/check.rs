//! Ranges: what parses but cannot be meant. Pure; each check names the key, so that the reader of
//! the file can point at its line.

use super::{
    AuthConfig, CallPolicy, CatalogConfig, Config, EnvValue, Grants, HostLimits, Limits, OauthConfig,
    ServeConfig, TokenEntry,
};
use crate::base::{ByteSize, Millis, Signers};

/// A value out of range: the path of its key, and what is wrong.
pub(super) type Wrong = (Vec<String>, String);

/// The longest span of any option: ten years. Sums of a few stay exact in JavaScript's numbers.
pub const LONGEST: Millis = Millis::from_secs(10 * 365 * 24 * 3600);
/// WebAssembly's page: less memory than this holds no instance.
const PAGE: ByteSize = ByteSize::kib(64);

fn wrong<const N: usize>(path: [&str; N], reason: impl Into<String>) -> Result<(), Wrong> {
    Err((path.iter().map(|s| (*s).to_owned()).collect(), reason.into()))
}

fn at_least(section: &str, key: &str, value: u64, least: u64) -> Result<(), Wrong> {
    if value >= least {
        return Ok(());
    }
    wrong([section, key], format!("`{key}` is {value}, and must be at least {least}"))
}

fn size_at_least(section: &str, key: &str, value: ByteSize, least: ByteSize) -> Result<(), Wrong> {
    if value >= least {
        return Ok(());
    }
    wrong([section, key], format!("`{key}` is {value}, and must be at least {least}"))
}

/// `zero`: may it be zero?
fn span(section: &str, key: &str, value: Millis, zero: bool) -> Result<(), Wrong> {
    if value.0 == 0 && !zero {
        return wrong([section, key], format!("`{key}` must be longer than zero"));
    }
    if value > LONGEST {
        return wrong([section, key], format!("`{key}` is {value}, and must be at most {LONGEST}"));
    }
    Ok(())
}

/// Bounds on a run. `host_memory` is the budget of all runs together.
pub(super) fn limits(l: &Limits, host_memory: ByteSize) -> Result<(), Wrong> {
    at_least("limits", "fuel", l.fuel, 1)?;
    size_at_least("limits", "memory", l.memory, PAGE)?;
    if l.memory > host_memory {
        return wrong(
            ["limits", "memory"],
            format!(
                "`memory` is {}, more than the host's budget of {host_memory} for all runs: \
                 no run would ever start; lower it, or raise `memory` under [host] in layby.toml",
                l.memory
            ),
        );
    }
    span("limits", "active-time", l.active_time, false)?;
    size_at_least("limits", "output", l.output, ByteSize(64))?;
    size_at_least("limits", "arguments", l.arguments, ByteSize(2))?;
    span("limits", "http-time", l.http_time, false)?;
    at_least("limits", "http-concurrency", l.http_concurrency.into(), 1)?;
    at_least("limits", "concurrency", l.concurrency.into(), 1)
}

/// How calls are held. `path` is where the section stands: `call`, or `tools.NAME.call`.
pub(super) fn call(c: &CallPolicy) -> Result<(), Wrong> {
    span("call", "deadline", c.deadline, false)?;
    span("call", "hold", c.hold, false)?;
    span("call", "grace", c.grace, true)?;
    span("call", "linger", c.linger, true)?;
    span("call", "absence", c.absence, true)?;
    span("call", "input-deadline", c.input_deadline, false)?;
    span("call", "push-wait", c.push_wait, false)?;
    if c.deadline > c.hold {
        return wrong(
            ["call", "deadline"],
            format!(
                "`deadline` is {}, longer than `hold`, which is {}: a client without tasks would be let \
                 down before one with tasks is promoted; raise `hold` or lower `deadline`",
                c.deadline, c.hold
            ),
        );
    }
    Ok(())
}

/// What a plugin may reach.
pub(super) fn grants(g: &Grants) -> Result<(), Wrong> {
    for kind in &g.ask {
        if let Err(reason) = ask(kind) {
            return wrong(["grants", "ask"], reason);
        }
    }
    for rule in &g.http {
        if let Err(reason) = http(&rule.allow) {
            return wrong(["grants", "http"], reason);
        }
    }
    for (name, value) in &g.env {
        let secret = match value {
            EnvValue::Plain(text) if text.contains('\0') => {
                return wrong(["grants", "env", name], format!("the value of `{name}` holds a NUL"));
            }
            EnvValue::Plain(_) => None,
            EnvValue::Secret { secret } => Some(secret.as_str()),
            EnvValue::SecretFile { secret_file } if secret_file.as_os_str().is_empty() => {
                return wrong(["grants", "env", name], format!("`secret-file` of `{name}` is empty"));
            }
            EnvValue::SecretFile { .. } => None,
        };
        for name in [Some(name.as_str()), secret].into_iter().flatten() {
            if name.is_empty() || name.contains(['=', '\0']) {
                return wrong(["grants", "env"], format!("{name:?} is not a variable's name"));
            }
        }
    }
    let mut guests = Vec::new();
    for file in &g.files {
        let path = guest_path(&file.guest).map_err(|e| (vec!["grants".into(), "files".into()], e))?;
        if file.host.as_os_str().is_empty() {
            return wrong(["grants", "files"], format!("the grant of {:?} has an empty `host`", file.guest));
        }
        if guests.contains(&path) {
            return wrong(["grants", "files"], format!("the guest path {:?} is granted twice", file.guest));
        }
        guests.push(path);
    }
    Ok(())
}

/// One kind of question: `form`, `sampling`, `roots`, or `url PREFIX`.
fn ask(kind: &str) -> Result<(), String> {
    let known = "known are \"form\", \"url https://host/\", \"sampling\" and \"roots\"";
    match kind.split_once(' ') {
        None if matches!(kind, "form" | "sampling" | "roots") => Ok(()),
        None if kind == "url" => {
            Err("`ask` has \"url\" without the start of the URLs: write \"url https://host/\"".into())
        }
        // Without a host: every URL of that scheme.
        Some(("url", prefix)) if web(prefix.trim()) || prefix.trim() == "https://" => Ok(()),
        Some(("url", prefix)) => Err(format!(
            "`ask` has a URL start of {prefix:?}: it must begin with https:// (or http://), a host, and a /; \"url https://\" alone allows every host"
        )),
        _ => {
            let near = super::nearest(kind, ["form", "sampling", "roots", "url"]).unwrap_or("form");
            Err(format!("`ask` has {kind:?}, the nearest known kind is {near:?}; {known}"))
        }
    }
}

/// `METHOD URL-PATTERN`; the pattern's own rules are the capability's.
fn http(rule: &str) -> Result<(), String> {
    let good = rule.split_once(' ').is_some_and(|(method, url)| {
        let letter = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'*' | b'-');
        !method.is_empty() && method.bytes().all(letter) && web(url.trim())
    });
    if good {
        return Ok(());
    }
    Err(format!(
        "`allow` is {rule:?}: write a method and a URL, such as \"GET https://api.example.com/v1/*\""
    ))
}

/// True for `http(s)://HOST/…`.
fn web(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.and_then(|r| r.split_once('/')).is_some_and(|(host, path)| {
        !host.is_empty()
            && !host.contains('@')
            && !url.chars().any(|c| c.is_whitespace() || c.is_control())
            && !path.split('/').any(|part| part == "..")
    })
}

/// A guest's path: absolute, without `.`, `..` or NUL. Returns it without a slash at its end.
fn guest_path(path: &str) -> Result<String, String> {
    let bare = path.trim_end_matches('/');
    let bad = !path.starts_with('/')
        || path.contains('\0')
        || path.contains('\\')
        || bare.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."));
    if bad && path != "/" {
        return Err(format!(
            "the guest path {path:?} must be absolute and plain, such as \"/inbox\" (no `.`, `..` or `\\`)"
        ));
    }
    Ok(bare.to_owned())
}

/// Before each tool name; the name rules of MCP 2026-07-28 hold for the whole.
pub(super) fn prefix(prefix: &str) -> Result<(), Wrong> {
    let good = prefix.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    if good && prefix.len() <= 64 {
        return Ok(());
    }
    wrong(
        ["prefix"],
        format!("`prefix` is {prefix:?}, and must be at most 64 of A-Z, a-z, 0-9, `_`, `-` and `.`"),
    )
}

/// The whole configuration of a host.
pub(super) fn config(c: &Config) -> Result<(), Wrong> {
    let s = &c.serve;
    if s.listen.is_empty() {
        return wrong(["serve", "listen"], "`listen` is empty: write an address and a port");
    }
    for (key, path) in [("plugins", &s.plugins), ("data", &s.data)] {
        if path.as_os_str().is_empty() {
            return wrong(["serve", key], format!("`{key}` is empty: write the path of a folder"));
        }
    }
    size_at_least("serve", "max-body", s.max_body, ByteSize::kib(1))?;
    span("serve", "header-timeout", s.header_timeout, false)?;
    span("serve", "body-timeout", s.body_timeout, false)?;
    at_least("serve", "max-connections", s.max_connections.into(), 1)?;
    at_least("serve", "page-size", s.page_size.into(), 1)?;
    let most = ServeConfig::INSTRUCTIONS;
    if s.instructions.len() > most {
        let reason =
            format!("`instructions` has {} bytes, and must have at most {most}", s.instructions.len());
        return wrong(["serve", "instructions"], reason);
    }
    if s.has_tls() == s.tls_key.as_os_str().is_empty() {
        let [there, lacks] =
            if s.has_tls() { ["tls-certificate", "tls-key"] } else { ["tls-key", "tls-certificate"] };
        return wrong(["serve", there], format!("`{there}` needs `{lacks}` beside it"));
    }
    span("serve", "write-timeout", s.write_timeout, false)?;
    span("serve", "session-idle", s.session_idle, false)?;
    span("serve", "drain", s.drain, true)?;

    let h = &c.host;
    at_least("host", "concurrency", h.concurrency.into(), 1)?;
    size_at_least("host", "memory", h.memory, PAGE)?;
    for (key, value) in [("calls", h.calls), ("polls", h.polls), ("requests", h.requests)] {
        at_least("host", key, value.into(), 1)?;
    }
    let each = &c.callers;
    let keys = [
        ("calls", each.calls),
        ("polls", each.polls),
        ("requests", each.requests),
        ("live-tasks", each.live_tasks),
        ("running", each.running),
    ];
    for (key, value) in keys {
        at_least("callers", key, value.into(), 1)?;
    }
    if h.guest_threads > HostLimits::GUEST_THREADS {
        let most = HostLimits::GUEST_THREADS;
        let reason = format!("`guest-threads` is {}, and must be at most {most}", h.guest_threads);
        return wrong(["host", "guest-threads"], reason);
    }
    at_least("host", "live-tasks", h.live_tasks.into(), 1)?;
    at_least("host", "waiting", h.waiting.into(), 1)?;
    let instances = h.concurrency.saturating_add(h.waiting);
    if instances > HostLimits::INSTANCES {
        let most = HostLimits::INSTANCES;
        let reason =
            format!("`concurrency` and `waiting` together are {instances}, and must be at most {most}");
        return wrong(["host", "concurrency"], reason);
    }
    at_least("host", "park-above", h.park_above.into(), 1)?;
    if h.park_above > 100 {
        let reason = format!("`park-above` is {}, and must be a percentage, at most 100", h.park_above);
        return wrong(["host", "park-above"], reason);
    }
    at_least("host", "mrtr-waiting", h.mrtr_waiting.into(), 1)?;
    at_least("host", "mrtr-waiting-each", h.mrtr_waiting_each.into(), 1)?;
    at_least("host", "fuel-slice", h.fuel_slice, 1000)?;

    let t = &c.store;
    if !t.url.is_empty() && !["postgres://", "postgresql://"].iter().any(|p| t.url.starts_with(p)) {
        return wrong(["store", "url"], "`url` must be empty or begin with \"postgres://\"".to_owned());
    }
    span("store", "busy-timeout", t.busy_timeout, false)?;
    span("store", "statement-timeout", t.statement_timeout, true)?;
    at_least("store", "readers", t.readers.into(), 1)?;
    size_at_least("store", "page-cache", t.page_cache, PAGE)?;
    at_least("store", "max-batch", t.max_batch.into(), 1)?;
    at_least("store", "queue", t.queue.into(), 1)?;
    if t.lease < Millis::from_secs(1) {
        return wrong(["store", "lease"], format!("`lease` is {}, and must be at least 1s", t.lease));
    }
    span("store", "lease", t.lease, false)?;
    span("store", "takeover", t.takeover, true)?;
    span("store", "tombstones", t.tombstones, true)?;
    catalog(c)?;
    auth(&c.auth)?;
    limits(&c.limits, h.memory)?;
    call(&c.call)
}

fn catalog(c: &Config) -> Result<(), Wrong> {
    let k = &c.catalog;
    span("catalog", "settle", k.settle, false)?;
    span("catalog", "poll", k.poll, false)?;
    size_at_least("catalog", "max-component", k.max_component, ByteSize(8))?;
    size_at_least("catalog", "max-function", k.max_function, ByteSize(1))?;
    at_least("catalog", "max-functions", k.max_functions.into(), 1)?;
    size_at_least("catalog", "max-code", k.max_code, ByteSize(1))?;
    size_at_least("catalog", "max-policy", k.max_policy, ByteSize(1))?;
    at_least("catalog", "max-plugins", k.max_plugins.into(), 1)?;
    at_least("catalog", "max-tools", k.max_tools.into(), 1)?;
    size_at_least("catalog", "max-schema", k.max_schema, ByteSize(64))?;
    at_least("catalog", "max-schema-depth", k.max_schema_depth.into(), 4)?;
    if k.max_schema_depth > 100 {
        let reason = "`max-schema-depth` must be at most 100: JSON is read to a depth of 128";
        return wrong(["catalog", "max-schema-depth"], reason);
    }
    at_least("catalog", "max-schema-steps", k.max_schema_steps.into(), 1)?;
    at_least("catalog", "list-fuel", k.list_fuel, 1)?;
    size_at_least("catalog", "list-memory", k.list_memory, PAGE)?;
    span("catalog", "list-time", k.list_time, false)?;
    span("catalog", "relist-interval", k.relist_interval, false)?;
    span("catalog", "retry", k.retry, false)?;
    let most = CatalogConfig::SIGNERS;
    if k.signers.len() > most {
        let reason = format!("`signers` has {} keys, and may have at most {most}", k.signers.len());
        return wrong(["catalog", "signers"], reason);
    }
    match Signers::of(&k.signers) {
        Ok(_) => Ok(()),
        Err(reason) => wrong(["catalog", "signers"], format!("`signers`: {reason}")),
    }
}

fn auth(a: &AuthConfig) -> Result<(), Wrong> {
    for line in &a.tokens {
        if let Err(reason) = TokenEntry::from_line(line) {
            return wrong(["auth", "tokens"], format!("`tokens`: {reason}"));
        }
    }
    for (name, opens) in &a.scopes {
        if let Err(reason) = scope(name) {
            return wrong(["auth", "scopes"], reason);
        }
        if let Some(pattern) = opens.iter().find(|p| !is_pattern(p)) {
            let reason = format!(
                "scope `{name}` opens {pattern:?}: write a tool's name, `prompt:NAME` or `resource:URI`, with at most one `*`, at its end"
            );
            return wrong(["auth", "scopes", name], reason);
        }
    }
    oauth(&a.oauth)
}

/// At most one `*`, and that at the end.
fn is_pattern(pattern: &str) -> bool {
    let stem = pattern.strip_suffix('*').unwrap_or(pattern);
    !pattern.is_empty() && !stem.contains('*')
}

fn oauth(o: &OauthConfig) -> Result<(), Wrong> {
    if !o.is_on() {
        let more = [("audience", &o.audience), ("jwks", &o.jwks)];
        return match more.iter().find(|(_, value)| !value.is_empty()) {
            Some((key, _)) => wrong(
                ["auth", "oauth", key],
                format!("`{key}` is set, and no `issuer` is: no token would be taken"),
            ),
            None => Ok(()),
        };
    }
    let urls = [("issuer", &o.issuer), ("audience", &o.audience), ("jwks", &o.jwks)];
    for (key, url) in urls.into_iter().filter(|(key, url)| *key != "jwks" || !url.is_empty()) {
        // What an issuer says counts only where nobody on the way can say something else.
        let secure = key == "audience";
        if let Err(reason) = origin(url, secure) {
            return wrong(["auth", "oauth", key], format!("`{key}` is {url:?}: {reason}"));
        }
    }
    for name in &o.scopes {
        if let Err(reason) = scope(name) {
            return wrong(["auth", "oauth", "scopes"], reason);
        }
    }
    Ok(())
}

/// A web URL without user, query and fragment; `plain` HTTP only on this machine, unless it is allowed.
fn origin(text: &str, plain: bool) -> Result<(), String> {
    let url = url::Url::parse(text).map_err(|e| format!("it is not a URL ({e})"))?;
    if url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err("it must have no user, query or fragment".into());
    }
    let local = match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => return Err("it has no host".into()),
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if plain || local => Ok(()),
        _ => Err("it must begin with https://".into()),
    }
}

/// A scope as OAuth has it (RFC 6749, 3.3).
pub(super) fn scope(scope: &str) -> Result<(), String> {
    let good = scope.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e));
    if good && (1..=128).contains(&scope.len()) {
        return Ok(());
    }
    Err(format!(
        "{scope:?} is no scope: write 1 to 128 visible characters, and neither blanks, quotes nor backslashes"
    ))
}
