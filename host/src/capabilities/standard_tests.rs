#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The standard interfaces beside WASI's own: every version of them that is linked, against components that
//! import it as its users' tools write the import.

use super::{Linked, env, stdio};
use crate::{base::Digest, engine::Engine};

/// Why a component with this one import does not link; for its want of tools alone where the import does.
fn refused(import: &str) -> String {
    let text = format!("(component {import})");
    let bytes = wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let engine = Engine::open(None, 1).unwrap();
    let component = engine.component(Digest::of(&bytes), &bytes).unwrap();
    Linked::new(&engine).unwrap().prepare(&component, &bytes).err().expect("it exports no tools").to_string()
}

fn linked(import: &str) {
    let why = refused(import);
    assert!(why.contains("does not export"), "{import}: {why}");
}

#[test]
fn every_version_of_wasi_config_is_linked() {
    for name in env::CONFIG {
        let error = if name.contains("/runtime") { "config-error" } else { "error" };
        linked(&format!(
            r#"(import "{name}" (instance
                (type $e (variant (case "upstream" string) (case "io" string)))
                (export "{error}" (type $error (eq $e)))
                (type $value (option string))
                (export "get" (func (param "key" string) (result (result $value (error $error)))))
                (type $pair (tuple string string))
                (type $pairs (list $pair))
                (export "get-all" (func (result (result $pairs (error $error)))))))"#
        ));
    }
    let why = refused(r#"(import "wasi:config/store@0.3.0" (instance (export "get" (func))))"#);
    assert!(why.contains("wasi:config/store@0.3.0"), "{why}");
}

#[test]
fn every_version_of_wasi_logging_is_linked() {
    for name in stdio::LOGGING {
        linked(&format!(
            r#"(import "{name}" (instance
                (type $l (enum "trace" "debug" "info" "warn" "error" "critical"))
                (export "level" (type $level (eq $l)))
                (export "log" (func (param "level" $level) (param "context" string) (param "message" string)))))"#
        ));
    }
}
