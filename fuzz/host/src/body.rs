//! Any messages to the MCP endpoint, of either era: each has an answer, in time, in JSON, to its own id, and without the
//! host's inside.
//!
//! Input: a message a line, each the body of a `POST`. Headers mirror it as the protocol wants; after an `initialize` they name
//! its session.

use std::time::Duration;

use layby::commands::fuzzing::Asked;
use serde_json::Value;

use crate::served::{ADDRESS, ask, header};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Messages of one input: few are needed for anything, and each may write.
const MOST: usize = 8;
/// A stream of changes, or of a session, does not end.
const ENDLESS: Duration = Duration::from_millis(1);
/// All others do, by the times of the host.
const ENDS: Duration = Duration::from_secs(5);

pub(crate) fn target(data: &[u8]) {
    let mut session = None;
    for line in data.split(|b| *b == b'\n').filter(|line| !line.is_empty()).take(MOST) {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let endless = message["method"] == "subscriptions/listen";
        let asked = post(line, &message, session.as_deref());
        let older = asked.headers.iter().any(|(name, _)| name == b"mcp-session-id");
        let pieces = if endless { ENDLESS } else { ENDS };
        let Some(answered) = ask(false, asked, pieces) else { continue };
        assert!(answered.whole || endless, "it does not end: {message}");
        let json = header(&answered, "content-type") == Some(b"application/json");
        assert!(answered.status < 400 || json, "{}: a refusal without a code: {message}", answered.status);
        if session.is_none() {
            session = header(&answered, "mcp-session-id").map(<[u8]>::to_vec);
        }
        let streamed = header(&answered, "content-type") == Some(b"text/event-stream");
        // What is no UTF-8 is no message, but may have an id that can be read.
        let whole = !message.is_null() && message["method"] != "initialize";
        if whole && !older && !streamed && answered.status == 200 {
            let answer: Value = serde_json::from_slice(&answered.body).expect("JSON");
            // JSON's 1.0 and 1 are one number.
            let [told, asked] = [&answer["id"], &message["id"]];
            let same = told == asked || (told.is_number() && told.as_f64() == asked.as_f64());
            assert!(same, "{message}: {answer}");
        }
    }
    if let Some(session) = session {
        let mut asked = request(b"DELETE");
        asked.headers.push((b"mcp-session-id".to_vec(), session));
        let answered = ask(false, asked, ENDS).expect("it came from the host");
        assert_eq!(answered.status, 204);
    }
}

fn request(method: &[u8]) -> Asked {
    let text = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let headers = vec![
        text("host", ADDRESS),
        text("content-type", "application/json"),
        text("accept", "application/json, text/event-stream"),
    ];
    Asked { method: method.to_vec(), target: b"/mcp".to_vec(), headers, body: Vec::new() }
}

/// The message with the headers that it wants.
fn post(line: &[u8], message: &Value, session: Option<&[u8]>) -> Asked {
    let mut asked = Asked { body: line.to_vec(), ..request(b"POST") };
    let params = &message["params"];
    let mut add = |name: &str, value: &Value| {
        if let Some(value) = value.as_str() {
            asked.headers.push((name.as_bytes().to_vec(), mirrored(value).into_bytes()));
        }
    };
    let version = &params["_meta"][VERSION];
    if version.is_null()
        && let Some(session) = session
    {
        asked.headers.push((b"mcp-session-id".to_vec(), session.to_vec()));
        return asked;
    }
    if version.is_null() && message["method"] == "initialize" {
        return asked;
    }
    add("mcp-protocol-version", version);
    add("mcp-method", &message["method"]);
    let name = match message["method"].as_str() {
        Some("tools/call" | "prompts/get") => &params["name"],
        Some("resources/read") => &params["uri"],
        Some("tasks/get" | "tasks/update" | "tasks/cancel") => &params["taskId"],
        _ => &Value::Null,
    };
    add("mcp-name", name);
    let place = &params["arguments"]["place"];
    if params["name"] == "told" {
        add("mcp-param-place", place);
    }
    asked
}

/// `text` as the value of a header: itself, or in base64.
pub(crate) fn mirrored(text: &str) -> String {
    let plain = text.bytes().all(|b| matches!(b, b' '..=b'~')) && text.trim() == text;
    if plain && !text.starts_with("=?base64?") {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", base64(text.as_bytes()))
    }
}

/// RFC 4648, section 4; written anew, so that the host's own reading is compared with another one.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}
