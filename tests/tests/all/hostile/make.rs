//! Components from the texts in `tests/hostile`. A text that begins with `(component` is one. One that begins with
//! `(module` is the core of a plugin, to which is added what it does not define itself: memory, allocation, `list-tools`,
//! `call-tool`. A line `;;@ [{"name": …, "description": …, "schema": …}]` says what it lists.

use std::path::PathBuf;

use serde_json::{Value, json};

/// A plugin's component, without its core.
const FRAME: &str = include_str!("../../../hostile/parts/frame.wat");
const SCHEMA: &str = r#"{"type":"object"}"#;

/// Pieces, each with a text in the module that makes it needless, and one without which it is.
const PIECES: [(&str, &str, &str); 7] = [
    (include_str!("../../../hostile/parts/memory.wat"), "(export \"memory\")", ""),
    (include_str!("../../../hostile/parts/realloc.wat"), "(export \"cabi_realloc\")", ""),
    (include_str!("../../../hostile/parts/say.wat"), "(func $ok", ""),
    (include_str!("../../../hostile/parts/ask.wat"), "(func $ask", "(func $request_input"),
    (include_str!("../../../hostile/parts/list.wat"), "#list-tools", ""),
    (include_str!("../../../hostile/parts/post.wat"), "cabi_post_", ""),
    (include_str!("../../../hostile/parts/call.wat"), "#call-tool", ""),
];

/// The folder of the texts.
pub(super) fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/hostile"))
}

/// The text of `name`.
pub(super) fn source(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.wat"))).expect(name)
}

/// What `name` attacks, in its own words: the comment at its top.
pub(super) fn purpose(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix(";; "));
    lines.collect::<Vec<_>>().join(" ")
}

/// The component `name`, whose one tool has that name too.
pub(super) fn component(name: &str) -> Vec<u8> {
    let source = source(name);
    if source.contains("(component") {
        return wat::parse_str(&source).expect(name);
    }
    plugin(name, &source)
}

/// A plugin around the core module `source`.
pub(super) fn plugin(name: &str, source: &str) -> Vec<u8> {
    let listed = source.lines().find_map(|line| line.strip_prefix(";;@ "));
    let tools = listed.map_or_else(|| json!([{}]), |text| serde_json::from_str(text).expect(name));
    let (data, list) = listing(name, tools.as_array().expect("an array of tools"));
    let pieces = PIECES.iter().filter(|(_, has, needs)| !source.contains(has) && source.contains(needs));
    let pieces: String = pieces.map(|(piece, ..)| *piece).collect();
    let end = source.rfind(')').expect("a module has an end");
    let text = format!("{}\n{pieces}\n{data})", &source[..end]).replace("@LIST@", &list.to_string());
    let core = text.replacen("(module", "(core module", 1);
    wat::parse_str(FRAME.replace("@CORE@", &core)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A data segment with the list of `tools`, and where the list's pointer and length are in it.
fn listing(name: &str, tools: &[Value]) -> (String, u32) {
    const BASE: u32 = 2048;
    let mut texts = Vec::new();
    let mut records = Vec::new();
    let mut put = |text: &str, at: &mut Vec<u8>| {
        at.extend((BASE + texts.len() as u32).to_le_bytes());
        at.extend((text.len() as u32).to_le_bytes());
        texts.extend(text.as_bytes());
    };
    for tool in tools {
        let own = |key: &str, default: &str| match &tool[key] {
            Value::Null => default.to_owned(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        put(&own("name", name), &mut records);
        records.extend([0; 12]);
        put(&own("description", "An attack."), &mut records);
        put(&own("schema", SCHEMA), &mut records);
        // Neither an output schema nor annotations nor `extra`.
        records.extend([0; 12 + 8 + 12]);
    }
    texts.resize(texts.len().next_multiple_of(4), 0);
    let first = BASE + texts.len() as u32;
    let list = first + records.len() as u32;
    texts.extend(records);
    texts.extend(first.to_le_bytes());
    texts.extend((tools.len() as u32).to_le_bytes());
    assert!(BASE as usize + texts.len() < 65536, "{name}: the list is too large");
    let bytes: String = texts.iter().map(|b| format!("\\{b:02x}")).collect();
    (format!("(data (i32.const {BASE}) \"{bytes}\")"), list)
}
