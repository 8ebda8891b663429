//! Fixed bounds of what is fetched from an OCI registry: they protect the operator's machine from a registry that means
//! harm or is broken, and no registry should depend on them.

use crate::base::{ByteSize, Millis};

/// Bounds of one `layby plugins add oci://…`. The component has [`super::CatalogConfig::max_component`].
#[derive(Clone, Copy, Debug)]
pub struct RegistryRules;

impl RegistryRules {
    /// Largest manifest: what the distribution specification asks registries to take at least.
    pub const MANIFEST: ByteSize = ByteSize::mib(4);
    /// Largest answer of a token server: a token goes into a header, and few servers take more.
    pub const TOKEN: ByteSize = ByteSize::kib(256);
    /// Largest of `config.json`, where Docker's tools keep credentials.
    pub const CREDENTIALS: ByteSize = ByteSize::mib(1);
    /// Redirects of one request: registries send to their storage, which may send on once or twice.
    pub const REDIRECTS: usize = 5;
    /// Time for a connection: what is not reached by then is not there.
    pub const CONNECT: Millis = Millis::from_secs(10);
    /// Longest time without a byte: storage may have to be woken up.
    pub const SILENCE: Millis = Millis::from_secs(30);
    /// Time for everything: 64 MiB over a slow line.
    pub const TOTAL: Millis = Millis::from_secs(600);
}
