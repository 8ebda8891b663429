//! Attacks by size: too large for a file, so they are made here, byte by byte.

/// Name, component, what comes of it, and a part of the text beside that.
type Made = (&'static str, Vec<u8>, &'static str, &'static str);

/// Everything.
pub(super) fn all() -> Vec<Made> {
    vec![
        ("made-imports", imports(), "plugin_wrong_world", ""),
        ("made-module-imports", module_imports(), "plugin_not_a_component", ""),
        ("made-large", large(), "plugin_bad_function", ""),
        ("made-larger", vec![0; (64 << 20) + 1], "plugin_too_large", "max-component"),
        ("made-modules", component(&section(1, MODULE).repeat(20_000)), "plugin_not_a_component", "limit"),
        ("made-instances", instances(), "plugin_not_a_component", "limit"),
        ("made-nested", nested(60_000), "plugin_not_a_component", "within each other"),
        ("made-types", types(60), "plugin_not_a_component", "limit"),
        ("made-lists", lists(50_000), "plugin_not_a_component", "deep"),
        ("made-function", function(2 << 20), "plugin_too_large", "max-function"),
        ("made-small-functions", small(64 << 20), "plugin_too_large", "max-functions"),
        ("made-code", code(63), "plugin_too_large", "max-code"),
        ("made-functions", functions(), "plugin_bad_function", "20000 functions"),
        ("made-cut", cut(), "plugin_not_a_component", ""),
    ]
}

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// A number as the format has it.
fn leb(mut n: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

fn section(id: u8, body: &[u8]) -> Vec<u8> {
    [&[id], &leb(body.len())[..], body].concat()
}

/// A section of `count` equal items.
fn repeated(id: u8, count: usize, item: &[u8]) -> Vec<u8> {
    section(id, &[leb(count), item.repeat(count)].concat())
}

fn component(sections: &[u8]) -> Vec<u8> {
    [COMPONENT, sections].concat()
}

/// A component with this module alone.
fn of_module(sections: &[u8]) -> Vec<u8> {
    component(&section(1, &[MODULE, sections].concat()))
}

fn text(inside: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {inside})")).unwrap()
}

/// 100,000 functions that are imported.
fn imports() -> Vec<u8> {
    let mut list = leb(100_000);
    for n in 0..100_000 {
        let name = format!("f{n}");
        // A plain name, and a function of the first type.
        list.extend([&[0], &leb(name.len())[..], name.as_bytes(), &[1, 0]].concat());
    }
    // A type: a function without parameters and without a result.
    component(&[section(7, &[1, 0x40, 0, 1, 0]), section(10, &list)].concat())
}

/// The same by a module inside.
fn module_imports() -> Vec<u8> {
    let mut imports = leb(100_000);
    for n in 0..100_000 {
        let name = format!("f{n}");
        imports.extend([&[1, b'a'], &leb(name.len())[..], name.as_bytes(), &[0, 0]].concat());
    }
    let module = [section(1, &[1, 0x60, 0, 0]), section(2, &imports)].concat();
    // Instantiated with nothing.
    [of_module(&module), section(2, &[1, 0, 0, 0])].concat()
}

/// A module of 50 MB, by data that it never needs.
fn large() -> Vec<u8> {
    let data = [&[1, 1][..], &leb(50 << 20), &vec![b'x'; 50 << 20]].concat();
    of_module(&[section(12, &[1]), section(11, &data)].concat())
}

/// One module, instantiated 20,000 times.
fn instances() -> Vec<u8> {
    [of_module(&[]), repeated(2, 20_000, &[0, 0, 0])].concat()
}

/// Components within components.
fn nested(depth: usize) -> Vec<u8> {
    // From its end, so that nothing is copied twice.
    let mut back: Vec<u8> = COMPONENT.iter().rev().copied().collect();
    for _ in 0..depth {
        let length = leb(back.len());
        back.extend(length.iter().rev());
        back.push(4);
        back.extend(COMPONENT.iter().rev());
    }
    back.reverse();
    back
}

/// A type that doubles with each line.
fn types(lines: usize) -> Vec<u8> {
    let doubled: String = (0..lines).map(|n| format!("(type $t{} (tuple $t{n} $t{n}))", n + 1)).collect();
    text(&format!("(type $t0 (tuple u8 u8)) {doubled} (import \"f\" (func (param \"a\" $t{lines})))"))
}

/// Lists of lists.
fn lists(depth: usize) -> Vec<u8> {
    let mut types = leb(depth);
    // The first is of bytes.
    types.extend([0x70, 0x7d]);
    for n in 0..depth - 1 {
        types.push(0x70);
        // An index is a signed number here, whose next bit must not be set.
        types.extend([n as u8 | 0x80, (n >> 7) as u8 | 0x80, (n >> 14) as u8 & 0x3f]);
    }
    component(&section(7, &types))
}

/// A single function of so many bytes: compiling takes much more time and memory than for many small ones.
fn function(bytes: usize) -> Vec<u8> {
    // i64.const 1, drop
    let body = [vec![0], [0x42, 1, 0x1a].repeat(bytes / 3), vec![0x0b]].concat();
    let code = [&[1], &leb(body.len())[..], &body].concat();
    of_module(&[section(1, &[1, 0x60, 0, 0]), section(3, &[1, 0]), section(10, &code)].concat())
}

/// As many functions as fit into a component of this size: each takes a compiler as long as one of 150 bytes.
fn small(most: usize) -> Vec<u8> {
    let count = most / 4 - 1000;
    let kinds = [leb(count), vec![0; count]].concat();
    let code = [leb(count), [2, 0, 0x0b].repeat(count)].concat();
    of_module(&[section(1, &[1, 0x60, 0, 0]), section(3, &kinds), section(10, &code)].concat())
}

/// Ordinary functions, with so many MiB of code together.
fn code(mib: usize) -> Vec<u8> {
    // i64.const 1, drop
    let body = [vec![0], [0x42, 1, 0x1a].repeat(1365), vec![0x0b]].concat();
    let body = [leb(body.len()), body].concat();
    let count = (mib << 20) / body.len();
    let kinds = [leb(count), vec![0; count]].concat();
    let code = [leb(count), body.repeat(count)].concat();
    of_module(&[section(1, &[1, 0x60, 0, 0]), section(3, &kinds), section(10, &code)].concat())
}

/// 20,000 exported functions.
fn functions() -> Vec<u8> {
    let exports: String = (0..20_000).map(|n| format!("(export \"f{n}\" (func $f))")).collect();
    text(&format!(
        "(core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) (func $f (canon lift (core func $i \"f\"))) {exports}"
    ))
}

/// A component that says that it is longer than it is.
fn cut() -> Vec<u8> {
    [COMPONENT, &[1], &leb(1 << 30), MODULE].concat()
}
