//! Outgoing HTTP.

use std::{collections::BTreeMap, time::Duration};

use layby_plugin::prelude::*;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Fetch {
    requests: Vec<Exchange>,
    /// All are begun before the first is waited for.
    #[serde(default)]
    together: bool,
    /// Sleep before each request, and at the end, in milliseconds.
    #[serde(default)]
    nap_ms: u64,
    /// Asks one question (a form with `value`) before the last request.
    #[serde(default)]
    ask: bool,
}

/// What the question asks.
#[derive(Deserialize, JsonSchema)]
struct More {
    #[expect(dead_code, reason = "only that it was answered counts")]
    value: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Exchange {
    #[serde(default = "get")]
    method: String,
    url: String,
    /// In place of the URL's.
    authority: Option<String>,
    /// In place of the URL's; with its query.
    path: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// More of them, each character of a value a byte.
    #[serde(default)]
    more_headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    /// So many bytes more in the body.
    #[serde(default)]
    fill: usize,
    /// For connecting, and for the first byte, in milliseconds.
    timeout_ms: Option<u64>,
}

fn get() -> String {
    "GET".to_owned()
}

/// Sends requests. Of each: `{"status":…,"headers":…,"body":…,"length":…}` with the first 200 bytes of the body, or
/// `{"error":…}`.
#[tool]
pub(crate) fn fetch(args: Fetch, call: &Call) -> Result<String> {
    let nap = || std::thread::sleep(Duration::from_millis(args.nap_ms));
    let last = args.requests.len().saturating_sub(1);
    let (mut begun, mut answers) = (Vec::new(), Vec::new());
    for (n, request) in args.requests.iter().enumerate() {
        if args.nap_ms > 0 {
            nap();
        }
        if args.ask && n == last {
            call.ask_form::<More>("more", "Go on?").map_err(|e| format!("{e:?}"))?;
        }
        let exchange = outgoing::begin(request);
        if args.together { begun.push(exchange) } else { answers.push(ended(exchange)) }
    }
    answers.extend(begun.into_iter().map(ended));
    if args.nap_ms > 0 {
        nap();
    }
    Ok(Value::from(answers).to_string())
}

fn ended(exchange: Result<outgoing::Begun, String>) -> Value {
    let answer = exchange.and_then(outgoing::end);
    match answer {
        Ok((status, headers, body)) => {
            let start = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
            json!({ "status": status, "headers": headers, "body": start, "length": body.len() })
        }
        Err(error) => json!({ "error": error }),
    }
}

#[cfg(target_family = "wasm")]
mod outgoing {
    use std::{collections::BTreeMap, fmt::Debug};

    use wasip2::http::{
        outgoing_handler::handle,
        types::{
            Fields, FutureIncomingResponse, IncomingBody, Method, OutgoingBody, OutgoingRequest,
            RequestOptions, Scheme,
        },
    };

    use super::Exchange;

    pub(super) type Begun = FutureIncomingResponse;

    fn shown(error: impl Debug) -> String {
        format!("{error:?}")
    }

    fn refused(what: &'static str) -> impl FnOnce(()) -> String {
        move |()| format!("refused: {what}")
    }

    pub(super) fn begin(exchange: &Exchange) -> Result<Begun, String> {
        let (scheme, rest) = exchange.url.split_once("://").ok_or("no scheme")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let authority = exchange.authority.as_deref().unwrap_or(authority);
        let path = exchange.path.as_deref().unwrap_or(path);
        let headers = Fields::new();
        for (name, value) in &exchange.headers {
            headers.append(name, value.as_bytes()).map_err(shown)?;
        }
        for (name, value) in &exchange.more_headers {
            let bytes: Vec<u8> = value.chars().map(|c| c as u8).collect();
            headers.append(name, &bytes).map_err(shown)?;
        }
        let request = OutgoingRequest::new(headers);
        let method = match exchange.method.as_str() {
            "GET" => Method::Get,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            other => Method::Other(other.to_owned()),
        };
        request.set_method(&method).map_err(refused("method"))?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => Scheme::Other(other.to_owned()),
        };
        request.set_scheme(Some(&scheme)).map_err(refused("scheme"))?;
        request.set_authority(Some(authority)).map_err(refused("authority"))?;
        request.set_path_with_query(Some(path)).map_err(refused("path"))?;
        let options = exchange.timeout_ms.map(|ms| {
            let options = RequestOptions::new();
            let ns = Some(ms.saturating_mul(1_000_000));
            // The host has both.
            let _ = options.set_connect_timeout(ns).and_then(|()| options.set_first_byte_timeout(ns));
            options
        });
        let body = request.body().map_err(refused("body"))?;
        let begun = handle(request, options).map_err(shown)?;
        let written = write(&body, exchange);
        // What was too much is told by the answer.
        let finished = OutgoingBody::finish(body, None).map_err(shown);
        drop(written.and(finished));
        Ok(begun)
    }

    fn write(body: &OutgoingBody, exchange: &Exchange) -> Result<(), String> {
        let stream = body.write().map_err(refused("write"))?;
        let mut bytes = exchange.body.clone().into_bytes();
        bytes.resize(bytes.len() + exchange.fill, b'.');
        for chunk in bytes.chunks(4096) {
            stream.blocking_write_and_flush(chunk).map_err(shown)?;
        }
        Ok(())
    }

    pub(super) fn end(begun: Begun) -> Result<(u16, BTreeMap<String, String>, Vec<u8>), String> {
        begun.subscribe().block();
        let response = begun.get().ok_or("not ready")?.map_err(refused("twice"))?.map_err(shown)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let headers = response.headers().entries().into_iter().map(|(n, v)| (n, text(v))).collect();
        let body = response.consume().map_err(refused("consume"))?;
        let mut bytes = Vec::new();
        {
            let stream = body.stream().map_err(refused("stream"))?;
            while let Ok(chunk) = stream.blocking_read(1 << 20) {
                bytes.extend(chunk);
            }
        }
        drop(IncomingBody::finish(body));
        Ok((response.status(), headers, bytes))
    }
}

/// Outside the sandbox there is nothing to try.
#[cfg(not(target_family = "wasm"))]
mod outgoing {
    use std::collections::BTreeMap;

    pub(super) struct Begun;

    pub(super) fn begin(exchange: &super::Exchange) -> Result<Begun, String> {
        let parts = (&exchange.method, &exchange.url, &exchange.authority, &exchange.path, &exchange.body);
        let rest = (&exchange.headers, &exchange.more_headers, exchange.fill, exchange.timeout_ms);
        Err(format!("only in the sandbox: {parts:?}, {rest:?}"))
    }

    pub(super) fn end(_: Begun) -> Result<(u16, BTreeMap<String, String>, Vec<u8>), String> {
        Err("only in the sandbox".to_owned())
    }
}
