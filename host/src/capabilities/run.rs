//! One instance from start to end.

use std::time::Instant;

use wasmtime::{PoolConcurrencyLimitError, Store, Trap, WasmBacktrace, component::ResourceTableError};

use super::{
    Abort, Listing, Prepared, Request, Response, Setup, State, Used,
    link::Tools,
    state::Ended,
    stdio,
    wit_types::{self, Content, EmbeddedResource, RequestError, ToolError, ToolResult},
};
use crate::engine::Refusal;

/// Bytes that a guest may hand over in one host call, whatever its result may weigh: what a large `descriptor.write` has.
const HOST_CALL: usize = 8 << 20;
/// What lists and records take on the host beside the text in them, for results near their limit.
const HOST_CALL_SLACK: usize = 1 << 20;
/// How much larger a function's result may be as values than as text: each takes some 40 bytes, whatever is in it.
const VALUES: usize = 8;
/// What wasmtime says where a guest holds too many handles; its error is a text.
const HELD_TOO_MANY: &str = "store handle limit exceeded";
/// What wasmtime says where a guest hands over more; its error type is private.
const HANDED_OVER_TOO_MUCH: &str = "fuel allocated for hostcalls has been exhausted";

/// Instantiates and calls what `request` names; one future from start to end, which may be polled on any
/// runtime, and which stops the guest when dropped. `active-time` is the driver's to bound.
pub async fn call(prepared: &Prepared, setup: Setup, request: &Request) -> (Result<Response, Abort>, Used) {
    let started = Instant::now();
    let mut store = match store(prepared, setup) {
        Ok(store) => store,
        Err(abort) => return (Err(abort), Used::default()),
    };
    let flights = store.data().flights.clone();
    let answered = tokio::select! {
        biased;
        // Whatever the guest would make of it.
        abort = flights.run_ends() => Err(Ended(abort).into()),
        answered = answer(prepared, &mut store, request) => answered,
    };
    let outcome = match answered {
        Ok(answer) => match store.data().journal.finish() {
            Ok(()) => weighed(answer, &store),
            Err(mismatch) => Err(Abort::Mismatch(mismatch)),
        },
        Err(error) => Err(in_replay(abort(&error, &store), &store)),
    };
    let used = finish(&store, started);
    (outcome, used)
}

async fn answer(
    prepared: &Prepared,
    store: &mut Store<State>,
    request: &Request,
) -> wasmtime::Result<Response> {
    let instance = prepared.pre.instantiate_async(&mut *store).await?;
    let lacks = |name: &str| wasmtime::Error::msg(format!("the component does not export `{name}`"));
    Ok(match request {
        Request::Tool { name, arguments } => Response::Tool(match &prepared.tools {
            Tools::Listed(indices) => {
                let tools = indices.load(&mut *store, &instance)?;
                own("call-tool", tools.call_call_tool(&mut *store, name, arguments).await)?
            }
            Tools::Reflected(functions) => functions.call(store, &instance, name, arguments).await?,
        }),
        Request::Prompt { name, arguments } => {
            let prompts =
                prepared.prompts.as_ref().ok_or_else(|| lacks("prompts"))?.load(&mut *store, &instance)?;
            Response::Prompt(own("get-prompt", prompts.call_get_prompt(&mut *store, name, arguments).await)?)
        }
        Request::Resource { uri } => {
            let indices = prepared.resources.as_ref().ok_or_else(|| lacks("resources"))?;
            let resources = indices.load(&mut *store, &instance)?;
            Response::Resource(own("read-resource", resources.call_read_resource(&mut *store, uri).await)?)
        }
        Request::Completion { reference, argument, value, context } => {
            let indices = prepared.completions.as_ref().ok_or_else(|| lacks("completions"))?;
            let completions = indices.load(&mut *store, &instance)?;
            let answer = completions.call_complete(&mut *store, reference, argument, value, context).await;
            Response::Completion(own("complete", answer)?)
        }
    })
}

/// Instantiates once, and calls every `list-…` that the component exports. Where its functions are its tools, they
/// are known without it.
pub async fn list(prepared: &Prepared, setup: Setup) -> Result<Listing, Abort> {
    if let Tools::Reflected(functions) = &prepared.tools {
        return Ok(Listing { tools: functions.tools(), ..Listing::default() });
    }
    let started = Instant::now();
    let mut store = store(prepared, setup)?;
    let outcome = listing(prepared, &mut store).await.map_err(|error| abort(&error, &store));
    finish(&store, started);
    outcome
}

async fn listing(prepared: &Prepared, store: &mut Store<State>) -> wasmtime::Result<Listing> {
    let instance = prepared.pre.instantiate_async(&mut *store).await?;
    let mut listing = Listing::default();
    if let Tools::Listed(indices) = &prepared.tools {
        let tools = indices.load(&mut *store, &instance)?;
        listing.tools = own("list-tools", tools.call_list_tools(&mut *store).await)?;
    }
    if let Some(prompts) = &prepared.prompts {
        let prompts = prompts.load(&mut *store, &instance)?;
        listing.prompts = own("list-prompts", prompts.call_list_prompts(&mut *store).await)?;
    }
    if let Some(resources) = &prepared.resources {
        let resources = resources.load(&mut *store, &instance)?;
        listing.resources = own("list-resources", resources.call_list_resources(&mut *store).await)?;
        listing.templates = own("list-templates", resources.call_list_templates(&mut *store).await)?;
    }
    Ok(listing)
}

fn store(prepared: &Prepared, setup: Setup) -> Result<Store<State>, Abort> {
    let state = State::new(setup);
    let (fuel, slice) = (state.limits.fuel, state.fuel_slice.max(1));
    let handles = state.limits.handles as usize;
    let mut output = state.limits.output.as_usize().saturating_add(HOST_CALL_SLACK);
    if matches!(prepared.tools, Tools::Reflected(_)) {
        output = output.saturating_mul(VALUES);
    }
    let mut store = Store::new(prepared.pre.component().engine(), state);
    store.limiter(|s| &mut s.limiter);
    store.set_hostcall_fuel(output.max(HOST_CALL));
    store.set_max_component_handles(handles);
    // A guest yields after so much work, and at the latest when the epoch ticks; neither changes what it sees.
    store.epoch_deadline_async_yield_and_update(1);
    store.set_epoch_deadline(1);
    let fuelled = store.set_fuel(fuel).and_then(|()| store.fuel_async_yield_interval(Some(slice)));
    fuelled.map_err(|e| Abort::Host(format!("fuel cannot be set: {e:#}")))?;
    Ok(store)
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
fn weighed(answer: Response, store: &Store<State>) -> Result<Response, Abort> {
    let protocol = |e: &wit_types::ProtocolError| text(&e.message) + e.data.as_deref().map_or(0, str::len);
    let refused = |e: &RequestError| match e {
        RequestError::Protocol(e) => protocol(e),
        RequestError::NotFound | RequestError::Unsupported | RequestError::Cancelled => 0,
    };
    let weight = match &answer {
        Response::Tool(Ok(result) | Err(ToolError::Failed(result))) => weigh(result),
        Response::Tool(Err(ToolError::Protocol(e))) => protocol(e),
        Response::Tool(Err(ToolError::Unsupported | ToolError::Cancelled)) => 0,
        Response::Prompt(Ok(result)) => {
            let messages = result.messages.iter().map(|m| block(&m.content));
            let rest = [&result.description, &result.meta].into_iter().flatten().map(|t| text(t));
            // The shortest message, `{"role":"user","content":{"type":"text","text":""}},`.
            messages.sum::<usize>() + result.messages.len().saturating_mul(52) + rest.sum::<usize>()
        }
        Response::Resource(Ok(contents)) => contents.iter().map(embedded).sum(),
        Response::Completion(Ok(completion)) => completion.values.iter().map(|v| text(v) + 3).sum(),
        Response::Prompt(Err(e)) | Response::Resource(Err(e)) | Response::Completion(Err(e)) => refused(e),
    };
    if weight > store.data().limits.output.as_usize() { Err(too_large(store)) } else { Ok(answer) }
}

pub(super) fn too_large(store: &Store<State>) -> Abort {
    Abort::Limit {
        name: "output",
        value: store.data().limits.output.to_string(),
        advice: "ask for fewer or smaller items".into(),
    }
}

/// At least what the texts and bytes in `result` take as JSON.
fn weigh(result: &ToolResult) -> usize {
    // The shortest block, `{"type":"text","text":""},`, beside what is in it.
    let blocks = result.content.len().saturating_mul(26);
    let rest = [&result.structured_content, &result.meta];
    result.content.iter().map(block).sum::<usize>()
        + blocks
        + rest.into_iter().flatten().map(String::len).sum::<usize>()
}

fn block(content: &Content) -> usize {
    match content {
        Content::Text(t) => text(t),
        Content::Image(m) | Content::Audio(m) => base64(&m.data) + text(&m.mime_type),
        Content::ResourceLink(l) => {
            let optional = [&l.title, &l.description, &l.mime_type];
            text(&l.uri) + text(&l.name) + optional.into_iter().flatten().map(|t| text(t)).sum::<usize>()
        }
        Content::Embedded(e) => embedded(e),
        Content::Other(json) => json.len(),
    }
}

fn embedded(e: &EmbeddedResource) -> usize {
    text(&e.uri)
        + match &e.contents {
            wit_types::ResourceContents::Text(t) => text(t),
            wit_types::ResourceContents::Blob(b) => base64(b),
        }
}

fn base64(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(3) * 4
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

/// What went wrong before all of a journal was replayed had not gone wrong when it was recorded: it is this host's
/// matter, not the run's.
fn in_replay(abort: Abort, store: &Store<State>) -> Abort {
    match abort {
        Abort::Limit { .. } | Abort::Trap(_) if !store.data().journal.is_live() => {
            Abort::Host(format!("before the journal was replayed: {abort:?}"))
        }
        abort => abort,
    }
}

/// The function whose value was none.
#[derive(Debug, thiserror::Error)]
#[error("in {0}")]
struct Returned(String);

/// `result` of a call of `function`, as people name it. What went wrong outside of the guest's code went wrong with
/// the value that it returned.
pub(super) fn returned<T>(function: &str, result: wasmtime::Result<T>) -> wasmtime::Result<T> {
    result.map_err(|e| {
        let inside = e.is::<Trap>() || e.is::<WasmBacktrace>();
        if inside { e } else { e.context(Returned(function.to_owned())) }
    })
}

/// The same for a function of the package `layby:plugin`.
fn own<T>(name: &str, result: wasmtime::Result<T>) -> wasmtime::Result<T> {
    returned(&format!("the function `{name}`"), result)
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
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) || cause.contains(HELD_TOO_MANY) {
        return Abort::Limit {
            name: "handles",
            value: state.limits.handles.to_string(),
            advice: "The plugin should drop timers, streams and requests that it needs no more.".into(),
        };
    }
    if cause.contains(HANDED_OVER_TOO_MUCH) {
        return too_large(store);
    }
    let first = cause.lines().next().unwrap_or_default();
    let mut text = match (trap, error.downcast_ref()) {
        (Some(trap), _) => format!("the plugin trapped: {trap}"),
        (None, Some(Returned(function))) => {
            format!("the component returned a bad value from {function}: {first}")
        }
        (None, None) => format!("the plugin was stopped: {first}"),
    };
    if let Some(capture) = state.captured() {
        let mut capture = stdio::lock(capture);
        capture.finish();
        if !capture.last_error().is_empty() {
            text = format!("{text}\nlast line of standard error: {}", capture.last_error());
        }
    }
    // Without a backtrace there is nothing in it that is not said yet.
    if error.is::<WasmBacktrace>() {
        text = format!("{text}\n{error:?}");
    }
    Abort::Trap(text)
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
