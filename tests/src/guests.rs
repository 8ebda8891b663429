//! Components that `cargo xtask plugins` has built.

use std::path::PathBuf;

/// The `target` folder that this test was built into.
pub fn target() -> PathBuf {
    // target/PROFILE/deps/TEST
    let exe = std::env::current_exe().expect("a test knows its program");
    exe.ancestors().nth(3).expect("tests lie three folders below target").to_owned()
}

/// The component `name`, of the plugins or of the guests for tests; `LANGUAGE/NAME` of those that every
/// language has.
///
/// # Panics
/// If it is not built.
pub fn component(name: &str) -> Vec<u8> {
    let candidates = ["guests", "plugins"].map(|folder| target().join(folder).join(format!("{name}.wasm")));
    let found = candidates.iter().find(|path| path.exists());
    let path = found.unwrap_or_else(|| panic!("{name}.wasm is not built: run `cargo xtask plugins`"));
    std::fs::read(path).expect("a component can be read")
}

/// The policy beside the guest `name`.
///
/// # Panics
/// If there is none.
pub fn policy(name: &str) -> String {
    let path = target().join("guests").join(format!("{name}.toml"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The host's binary, as cargo built it beside this test.
///
/// # Panics
/// If it is not there.
pub fn layby() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its program");
    let binary = exe.ancestors().nth(2).expect("tests lie two folders below their profile").join("layby");
    assert!(
        binary.exists(),
        "{} is not built: run `cargo xtask test`, or `cargo build --workspace --all-targets --features layby/test-hooks`",
        binary.display()
    );
    binary
}
