//! One instance from start to end.

use std::time::Instant;

use wasmtime::{PoolConcurrencyLimitError, Store, Trap};

use super::{
    Abort, Prepared, Setup, State, Used,
    bindings::Plugin,
    state::Ended,
    stdio,
    wit_types::{self, Content, ToolError, ToolResult},
};
use crate::engine::Refusal;

/// Bytes that a guest may hand over in one host call, whatever its result may weigh: what a large `descriptor.write` has.
const HOST_CALL: usize = 8 << 20;
/// What lists and records take on the host beside the text in them, for results near their limit.
const HOST_CALL_SLACK: usize = 1 << 20;
/// What wasmtime says where a guest hands over more; its error type is private.
const HANDED_OVER_TOO_MUCH: &str = "fuel allocated for hostcalls has been exhausted";

/// Instantiates and calls `call-tool`; one future from start to end, which may be polled on any
/// runtime, and which stops the guest when dropped. `active-time` is the driver's to bound.
pub async fn call_tool(
    prepared: &Prepared,
    setup: Setup,
    tool: &str,
    arguments: &str,
) -> (Result<Result<ToolResult, ToolError>, Abort>, Used) {
    let started = Instant::now();
    let mut store = match store(prepared, setup) {
        Ok(store) => store,
        Err(abort) => return (Err(abort), Used::default()),
    };
    // The bindings take the alias `json` as `&String`.
    let arguments = arguments.to_owned();
    let answer = async {
        let plugin = instance(prepared, &mut store).await?;
        plugin.layby_plugin_tools().call_call_tool(&mut store, tool, &arguments).await
    }
    .await;
    let outcome = match answer {
        Ok(answer) => weighed(answer, &store),
        Err(error) => Err(abort(&error, &store)),
    };
    let used = finish(&store, started);
    (outcome, used)
}

/// Instantiates and calls `list-tools`, with an inert caller.
pub async fn list_tools(prepared: &Prepared, setup: Setup) -> Result<Vec<wit_types::Tool>, Abort> {
    let started = Instant::now();
    let mut store = store(prepared, setup)?;
    let answer = async {
        let plugin = instance(prepared, &mut store).await?;
        plugin.layby_plugin_tools().call_list_tools(&mut store).await
    }
    .await;
    let outcome = answer.map_err(|error| abort(&error, &store));
    finish(&store, started);
    outcome
}

fn store(prepared: &Prepared, setup: Setup) -> Result<Store<State>, Abort> {
    let state = State::new(setup);
    let (fuel, slice) = (state.limits.fuel, state.fuel_slice.max(1));
    let output = state.limits.output.as_usize().saturating_add(HOST_CALL_SLACK);
    let mut store = Store::new(prepared.pre.engine(), state);
    store.limiter(|s| &mut s.limiter);
    store.set_hostcall_fuel(output.max(HOST_CALL));
    // A guest yields after so much work, and at the latest when the epoch ticks; neither changes what it sees.
    store.epoch_deadline_async_yield_and_update(1);
    store.set_epoch_deadline(1);
    let fuelled = store.set_fuel(fuel).and_then(|()| store.fuel_async_yield_interval(Some(slice)));
    fuelled.map_err(|e| Abort::Host(format!("fuel cannot be set: {e:#}")))?;
    Ok(store)
}

async fn instance(prepared: &Prepared, store: &mut Store<State>) -> wasmtime::Result<Plugin> {
    prepared.pre.instantiate_async(store).await
}

fn finish(store: &Store<State>, started: Instant) -> Used {
    let state = store.data();
    if let Some(capture) = state.captured() {
        stdio::lock(capture).finish();
    }
    Used {
        fuel: state.limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0)),
        memory: state.limiter.peak(),
        elapsed: started.elapsed(),
    }
}

/// Refuses an answer over the limit `output`.
fn weighed(
    answer: Result<ToolResult, ToolError>,
    store: &Store<State>,
) -> Result<Result<ToolResult, ToolError>, Abort> {
    let weight = match &answer {
        Ok(result) | Err(ToolError::Failed(result)) => weigh(result),
        Err(ToolError::Protocol(e)) => text(&e.message) + e.data.as_deref().map_or(0, str::len),
        Err(ToolError::Unsupported | ToolError::Cancelled) => 0,
    };
    if weight > store.data().limits.output.as_usize() { Err(too_large(store)) } else { Ok(answer) }
}

fn too_large(store: &Store<State>) -> Abort {
    Abort::Limit {
        name: "output",
        value: store.data().limits.output.to_string(),
        advice: "ask for fewer or smaller items".into(),
    }
}

/// At least what the texts and bytes in `result` take as JSON.
fn weigh(result: &ToolResult) -> usize {
    let base64 = |bytes: &[u8]| bytes.len().div_ceil(3) * 4;
    let content = result.content.iter().map(|c| match c {
        Content::Text(t) => text(t),
        Content::Image(m) | Content::Audio(m) => base64(&m.data) + text(&m.mime_type),
        Content::ResourceLink(l) => {
            let optional = [&l.title, &l.description, &l.mime_type];
            text(&l.uri) + text(&l.name) + optional.into_iter().flatten().map(|t| text(t)).sum::<usize>()
        }
        Content::Embedded(e) => {
            text(&e.uri)
                + match &e.contents {
                    wit_types::ResourceContents::Text(t) => text(t),
                    wit_types::ResourceContents::Blob(b) => base64(b),
                }
        }
        Content::Other(json) => json.len(),
    });
    // The shortest block, `{"type":"text","text":""},`, beside what is in it.
    let blocks = result.content.len().saturating_mul(26);
    let rest = [&result.structured_content, &result.meta];
    content.sum::<usize>() + blocks + rest.into_iter().flatten().map(String::len).sum::<usize>()
}

/// Bytes of `t` as a JSON string, without its quotes.
fn text(t: &str) -> usize {
    let escapes = t.bytes().map(|b| match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..0x20 => 5,
        _ => 0,
    });
    t.len() + escapes.sum::<usize>()
}

/// Why `error` ended the run.
fn abort(error: &wasmtime::Error, store: &Store<State>) -> Abort {
    let state = store.data();
    match state.limiter.refusal() {
        Some(Refusal::Memory { .. }) => {
            return Abort::Limit {
                name: "memory",
                value: state.limits.memory.to_string(),
                advice: "give the tool less to hold at once".into(),
            };
        }
        Some(Refusal::Host(text)) => return Abort::Host(text.clone()),
        None => {}
    }
    if let Some(Ended(abort)) = error.downcast_ref() {
        return abort.clone();
    }
    if let Some(full) = error.downcast_ref::<PoolConcurrencyLimitError>() {
        return Abort::Host(format!("no room for another instance: {full}"));
    }
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::OutOfFuel) {
        return Abort::Limit {
            name: "fuel",
            value: format!("{} instructions", state.limits.fuel),
            advice: "give the tool less to do in one call".into(),
        };
    }
    let cause = error.root_cause().to_string();
    if cause.contains(HANDED_OVER_TOO_MUCH) {
        return too_large(store);
    }
    let mut text = match trap {
        Some(trap) => format!("the plugin trapped: {trap}"),
        None => format!("the plugin was stopped: {}", cause.lines().next().unwrap_or_default()),
    };
    if let Some(capture) = state.captured() {
        let mut capture = stdio::lock(capture);
        capture.finish();
        if !capture.last_error().is_empty() {
            text = format!("{text}\nlast line of standard error: {}", capture.last_error());
        }
    }
    Abort::Trap(format!("{text}\n{error:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_weigh_what_json_makes_of_them() {
        for t in ["", "plain", "\"quoted\" \\ \n\t\r\u{8}\u{c}", "\0\u{1f}", "üñ€😀\u{7f}"] {
            let json = serde_json::Value::from(t).to_string();
            assert_eq!(text(t) + 2, json.len(), "{t:?}");
        }
    }
}
