//! Every attack, by when it strikes, with what comes of it. `tests/hostile/README.md` is made from this.

use std::collections::BTreeSet;

use super::make;

/// One attack.
pub(super) struct Attack {
    /// Its file in `tests/hostile`, without the ending, and its tool.
    pub(super) name: &'static str,
    /// The stable code that comes of it, or the word `says` where there is an ordinary answer, or `serves`.
    pub(super) sees: &'static str,
    /// A part of the text beside it.
    pub(super) with: &'static str,
}

const fn of(name: &'static str, sees: &'static str, with: &'static str) -> Attack {
    Attack { name, sees, with }
}

/// Refused, or harmless, when they are loaded.
pub(super) const LOADED: &[Attack] = &[
    of("list-asks", "serves", ""),
    of("list-changes", "serves", ""),
    of("list-claims", "plugin_name_taken", "echo"),
    of("list-deep", "plugin_bad_schema", ""),
    of("list-encoding", "plugin_list_tools_failed", "utf-8"),
    of("list-escapes", "plugin_bad_tool_name", ""),
    of("list-file", "plugin_bad_schema", ""),
    of("list-header", "plugin_bad_schema", "x-mcp-header"),
    of("list-headers", "plugin_bad_schema", "x-mcp-header"),
    of("list-long", "plugin_too_large", ""),
    of("list-loop", "plugin_list_tools_failed", "fuel"),
    of("list-many", "plugin_list_tools_failed", ""),
    of("list-memory", "plugin_list_tools_failed", "memory"),
    of("list-network", "plugin_bad_schema", ""),
    of("list-overlapping", "plugin_list_tools_failed", ""),
    of("list-pattern", "plugin_bad_schema", ""),
    of("list-pointer", "plugin_list_tools_failed", ""),
    of("list-recursion", "plugin_list_tools_failed", "stack"),
    of("list-references", "plugin_bad_schema", ""),
    of("list-sleep", "plugin_list_slow", ""),
    of("list-trap", "plugin_list_tools_failed", "unreachable"),
    of("list-twice", "plugin_bad_tool_name", "twice"),
    of("shape-core", "plugin_not_a_component", "core"),
    of("shape-import", "plugin_wrong_world", "wasi:root/shell"),
    of("shape-memories", "plugin_not_a_component", ""),
    of("shape-memory64", "plugin_not_a_component", ""),
    of("shape-nothing", "plugin_bad_function", ""),
    of("shape-resource", "plugin_bad_function", ""),
    of("shape-segments", "plugin_list_tools_failed", "memory"),
    of("shape-shared", "plugin_not_a_component", ""),
    of("shape-table", "plugin_not_a_component", ""),
    of("shape-version", "plugin_wrong_world", "9.9.9"),
    of("shape-world", "plugin_list_tools_failed", ""),
    of("start-loop", "plugin_list_tools_failed", "fuel"),
];

/// Stopped, or harmless, when they are called.
pub(super) const CALLED: &[Attack] = &[
    of("changed", "limit_active_time", ""),
    of("clock", "limit_active_time", ""),
    of("counts", "says", "2"),
    of("drops", "says", "1"),
    of("error-code", "plugin_error", ""),
    of("escapes", "says", ""),
    of("exit", "plugin_trap", ""),
    of("fields", "limit_http_bytes", ""),
    of("files", "limit_open_files", ""),
    of("files-streams", "limit_open_files", ""),
    of("fill", "limit_fuel", ""),
    of("handles", "limit_handles", ""),
    of("listings", "limit_open_files", ""),
    of("log", "limit_active_time", ""),
    of("log-huge", "limit_output", ""),
    of("loop", "limit_fuel", ""),
    of("memories", "limit_memory", ""),
    of("memory", "limit_memory", ""),
    of("naps", "limit_active_time", ""),
    of("poll", "limit_handles", ""),
    of("poll-nothing", "plugin_trap", ""),
    of("poll-same", "limit_handles", ""),
    of("post-calls", "plugin_trap", ""),
    of("post-loop", "limit_fuel", ""),
    of("post-trap", "plugin_trap", ""),
    of("progress", "limit_active_time", ""),
    of("question-deep", "says", ""),
    of("question-huge", "says", ""),
    of("question-many", "says", "1 to 16"),
    of("question-recursive", "says", ""),
    of("question-vast", "limit_output", ""),
    of("random", "limit_active_time", ""),
    of("random-huge", "plugin_trap", ""),
    of("random-many", "limit_active_time", ""),
    of("realloc-beyond", "plugin_trap", ""),
    of("realloc-calls", "plugin_trap", ""),
    of("realloc-loop", "limit_fuel", ""),
    of("realloc-odd", "plugin_trap", ""),
    of("realloc-same", "says", ""),
    of("realloc-trap", "plugin_trap", ""),
    of("recursion", "plugin_trap", "stack"),
    of("recursion-host", "plugin_trap", "stack"),
    of("requests", "limit_handles", ""),
    of("result-encoding", "plugin_trap", ""),
    of("result-huge", "limit_output", ""),
    of("result-many", "limit_output", ""),
    of("result-meta", "plugin_bad_result", "layby/code"),
    of("result-other", "plugin_bad_result", ""),
    of("result-pointer", "plugin_trap", ""),
    of("result-structured", "plugin_bad_result", ""),
    of("result-surrogate", "plugin_trap", ""),
    of("result-unaligned", "plugin_trap", ""),
    of("result-variant", "plugin_trap", ""),
    of("schema-cycle", "arguments_invalid", ""),
    of("schema-pattern", "arguments_invalid", ""),
    of("schema-references", "arguments_invalid", ""),
    of("sleep", "limit_active_time", ""),
    of("sockets", "says", "1"),
    of("stderr", "limit_active_time", ""),
    of("stdout", "limit_active_time", ""),
    of("streams", "limit_handles", ""),
    of("tables", "says", ""),
    of("timers", "limit_handles", ""),
    of("trap-holding", "plugin_trap", ""),
    of("trap-name", "plugin_trap", ""),
    of("zeroes", "plugin_trap", ""),
];

/// Those that have a test of their own, in `special.rs`.
pub(super) const SPECIAL: &[Attack] = &[
    of("deaf", "cancelled", "a task that is cancelled, and was not deaf to that for longer than its grace"),
    of("question-escapes", "says", "a person who answers sees what was asked, and nothing moves"),
    of("questions", "limit_questions", "each is answered"),
];

fn all() -> impl Iterator<Item = &'static Attack> {
    LOADED.iter().chain(CALLED).chain(SPECIAL)
}

#[test]
fn every_file_is_an_attack_of_the_table() {
    let files: BTreeSet<String> = std::fs::read_dir(make::folder())
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".wat")?.to_owned()))
        .collect();
    let rows: BTreeSet<String> = all().map(|attack| attack.name.to_owned()).collect();
    assert_eq!(rows.len(), all().count(), "each once");
    assert_eq!(files, rows);
}

#[test]
fn the_readme_has_the_table() {
    let mut text = "# Hostile plugins\n\nEach file attacks one thing. The tests in `tests/tests/all/hostile` load or call all of them through the real \
binary; this page is made from their table (`table.rs`), and a test compares it.\n\nA text that begins with `(module` is the core of a plugin: what it \
does not define itself comes from `parts/`, and `world.wit` has what it may import. More attacks are too large for a file, and made in \
`made.rs`.\n"
        .to_owned();
    for (title, attacks) in
        [("When it is loaded", LOADED), ("When it is called", CALLED), ("In a test of its own", SPECIAL)]
    {
        text += &format!("\n## {title}\n\n| file | what it does | what comes of it |\n|---|---|---|\n");
        for Attack { name, sees, with } in attacks {
            let what = make::purpose(&make::source(name)).replace('|', "\\|");
            let comes = match *sees {
                "says" => "an ordinary result".to_owned(),
                "serves" => "served, and nothing more".to_owned(),
                "cancelled" => "cancelled".to_owned(),
                "limit_fuel" | "limit_active_time" => "`limit_fuel` or `limit_active_time`".to_owned(),
                code => format!("`{code}`"),
            };
            let with = if title.starts_with("In a") { format!(": {with}") } else { String::new() };
            text += &format!("| `{name}` | {what} | {comes}{with} |\n");
        }
    }
    let page = make::folder().join("README.md");
    if std::fs::read_to_string(&page).unwrap_or_default() != text {
        let fresh = layby_tests::guests::target().join("tmp/hostile.md");
        std::fs::create_dir_all(fresh.parent().unwrap()).unwrap();
        std::fs::write(&fresh, &text).unwrap();
        panic!("{} is not what the table says; {} is", page.display(), fresh.display());
    }
}
