//! Bounds of `layby new`.

/// Fixed bounds of `layby new`.
pub struct NewRules;

impl NewRules {
    /// Characters of a plugin's name. 64: it is a file's name with `.wasm` and `.toml` behind it, a crate's, a
    /// package's and a module's, and tables and logs show it; file systems would take about 250.
    pub const NAME: usize = 64;
}
