#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf, process::Command};

use super::*;
use crate::{base::Digest, capabilities::Linked, engine::Engine as Host};

/// Interface and call.
type Name = (String, String);

/// The folders of the WIT texts of everything that is linked, as cargo has the crates.
fn folders() -> Vec<PathBuf> {
    let cargo = |args: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        let output = cargo.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    // Crates for other systems are not there where nobody has asked for them.
    let version = cargo(&["-vV"]);
    let system = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo's system");
    let args = ["metadata", "--format-version=1", "--offline", "--locked", "--filter-platform", system];
    let metadata: serde_json::Value = serde_json::from_str(&cargo(&args)).expect("cargo's JSON");
    let of = |name: &str| {
        let package = metadata["packages"].as_array().unwrap().iter().find(|p| p["name"] == name);
        let manifest = PathBuf::from(package.expect(name)["manifest_path"].as_str().unwrap());
        manifest.parent().unwrap().to_owned()
    };
    let http = of("wasmtime-wasi-http");
    let mut folders = vec![of("wasmtime-wasi").join("src/p2/wit/deps")];
    folders.extend(["wit/deps", "src/p2/wit/deps"].map(|path| http.join(path)));
    folders.push(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../wit"));
    folders
}

/// All calls that the texts have; those of streams, resources and constructors by their linked names.
fn written() -> BTreeSet<Name> {
    let mut calls = BTreeSet::new();
    for folder in folders().into_iter().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "wit") {
                read(&fs::read_to_string(path).unwrap(), &mut calls);
            }
        }
    }
    calls
}

fn read(text: &str, calls: &mut BTreeSet<Name>) {
    let (mut package, mut interface, mut resource) = (String::new(), None, None);
    let mut depth = 0_i32;
    for line in text.lines().map(|line| line.split("//").next().unwrap().trim()) {
        let word = |after: &str| {
            let rest = line.strip_prefix(after)?;
            Some(rest.split([' ', '{', ';', '@']).next().unwrap().to_owned())
        };
        if let Some(name) = word("package ") {
            package = name;
        } else if let Some(name) = word("interface ") {
            interface = Some((depth, format!("{package}/{name}")));
        } else if let Some(name) = word("resource ").filter(|_| line.ends_with('{')) {
            resource = Some((depth, name));
        }
        if let Some((_, interface)) = &interface {
            let of = resource.as_ref().map(|(_, name)| name.as_str());
            let call = match (line.split_once(": "), of) {
                (Some((name, rest)), of) if rest.starts_with("func(") || rest.starts_with("async func(") => {
                    let name = name.trim_start_matches('%');
                    Some(of.map_or(name.to_owned(), |of| format!("[method]{of}.{name}")))
                }
                (Some((name, rest)), Some(of)) if rest.starts_with("static func(") => {
                    Some(format!("[static]{of}.{name}"))
                }
                (_, Some(of)) if line.starts_with("constructor(") => Some(format!("[constructor]{of}")),
                _ => None,
            };
            calls.extend(call.map(|call| (interface.clone(), call)));
        }
        depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
        resource = resource.filter(|(at, _)| depth > *at);
        interface = interface.filter(|(at, _)| depth > *at);
    }
}

/// Whether the host has the call, whatever its type: a component that imports it with a wrong one is refused for that.
struct Asks {
    host: std::sync::Arc<Host>,
    linked: Linked,
}

impl Asks {
    fn has(&self, (interface, call): &Name, version: &str) -> bool {
        let mut text = format!("(component (import \"{interface}{version}\" (instance ");
        let resource = call.split_once(']').map(|(_, rest)| rest.split('.').next().unwrap());
        if let Some(resource) = resource {
            let _ = write!(text, "(export \"{resource}\" (type $r (sub resource)))");
        }
        let kind = if call.starts_with("[method]") {
            "(func (param \"self\" (borrow $r)) (param \"never\" (tuple u8 u8 u8)))"
        } else if call.starts_with("[constructor]") {
            "(func (param \"never\" (tuple u8 u8 u8)) (result (own $r)))"
        } else {
            "(func (param \"never\" (tuple u8 u8 u8)))"
        };
        let _ = write!(text, "(export \"{call}\" {kind}))))");
        let bytes = wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let component = self.host.component(Digest::of(&bytes), &bytes).unwrap();
        let why = self.linked.prepare(&component, &bytes).err().expect("no such type").to_string();
        !why.contains("implementation is missing")
    }
}

#[test]
fn every_call_that_is_linked_has_a_class_and_the_other_way_round() {
    let host = Host::open(None, 1).unwrap();
    let asks = Asks { linked: Linked::new(&host).unwrap(), host };
    let version = |interface: &str| match interface {
        "layby:plugin/call" => "@1.0.0",
        _ if interface.starts_with("wasi:config") => "@0.2.0-draft",
        _ if interface.starts_with("wasi:logging") => "",
        _ => "@0.2.12",
    };
    let known = TABLE.iter().flat_map(|(interface, calls)| {
        let names = calls.iter().flat_map(|(_, names)| names.iter());
        names.map(move |call| ((*interface).to_owned(), (*call).to_owned()))
    });
    let known: BTreeSet<Name> = known.collect();
    let written = written();
    assert!(written.len() > 150, "the texts are read: {}", written.len());
    let mut wrong = Vec::new();
    for name in written.union(&known) {
        let linked = asks.has(name, version(&name.0));
        if linked != known.contains(name) {
            wrong.push(format!("{}#{}: linked {linked}, has a class {}", name.0, name.1, !linked));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_has_no_class_pins() {
    assert_eq!(class("wasi:clocks/wall-clock@0.2.3", "now"), Class::Read);
    assert_eq!(class("wasi:clocks/wall-clock@0.2.3", "tomorrow"), Class::Pins);
    assert_eq!(class("wasi:dice/dice", "throw"), Class::Pins);
    let host = Host::open(None, 1).unwrap();
    let pinned = |import: &str| {
        let bytes = wat::parse_str(format!("(component {import})")).unwrap();
        pins(&host.component(Digest::of(&bytes), &bytes).unwrap(), host.wasmtime())
    };
    assert_eq!(pinned(r#"(import "wasi:cli/exit@0.2.0" (instance (export "exit" (func))))"#), None);
    let dice = r#"(import "wasi:dice/dice@0.2.0" (instance (export "throw" (func))))"#;
    assert_eq!(pinned(dice).unwrap(), "wasi:dice/dice@0.2.0#throw");
}
