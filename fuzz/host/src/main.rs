//! Fuzz targets of the whole host: one program, since the host is large to link. `LAYBY_FUZZ` names the target.
//!
//! libFuzzer is not a dependency: its crate asks `cc` for a feature with which half of the host's own dependencies would be
//! built anew. `cargo xtask fuzz` links to the one that it has built in `fuzz/`, and has only the host and this compiled with coverage.
#![no_main]
// A finding is a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod body;
mod component;
mod headers;
mod policy;
mod served;
// How the hostile plugins of the tests are made, of which this uses a part.
#[allow(dead_code)]
#[path = "../../../tests/tests/all/hostile/make.rs"]
mod make;

use std::sync::OnceLock;

type Target = fn(&[u8]);

/// By name: the seeds of each are in `fuzz/seeds/NAME`.
const TARGETS: [(&str, Target); 4] = [
    ("body", body::target),
    ("component", component::target),
    ("headers", headers::target),
    ("policy", policy::target),
];

fn target() -> Target {
    // As a fuzz target of cargo-fuzz: whatever panics, on whichever thread, is a finding.
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        say(info);
        std::process::abort();
    }));
    let name = std::env::var("LAYBY_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("LAYBY_FUZZ names no target: {name:?}")).1
}

/// What libFuzzer calls with each input.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> i32 {
    static TARGET: OnceLock<Target> = OnceLock::new();
    // SAFETY: libFuzzer gives a pointer to `size` bytes that stay as they are during the call. It may be null for none.
    let input = if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, size) } };
    TARGET.get_or_init(target)(input);
    0
}
