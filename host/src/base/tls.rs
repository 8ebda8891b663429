//! The one library of cryptography for TLS.

/// Makes `ring` the one that clients take where nobody has chosen; whoever comes later than another changes nothing.
pub fn choose_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
