//! The server's own TLS, by rustls: its certificate and key are read again when they change, so that a renewal needs no
//! restart.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Context as _, bail};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio_rustls::TlsAcceptor;

use crate::{
    base::{Stamp, choose_tls, read_file, stamp},
    config::ServeConfig,
};

/// What new connections are served with.
pub struct Tls {
    config: ServeConfig,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    stamps: [Option<Stamp>; 2],
    acceptor: TlsAcceptor,
}

impl Tls {
    /// Reads certificate and key, where the configuration names some.
    ///
    /// # Errors
    /// One of them cannot be read or is not PEM, or they do not belong together.
    pub fn open(config: &ServeConfig) -> anyhow::Result<Option<Self>> {
        if !config.has_tls() {
            return Ok(None);
        }
        let stamps = stamps(config);
        let acceptor = read(config)?;
        let state = Mutex::new(State { looked: Instant::now(), stamps, acceptor });
        Ok(Some(Self { config: config.clone(), state }))
    }

    /// With the certificate as of a second ago at most. One that cannot be used leaves the one before.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= ServeConfig::LOOK.duration() {
            state.looked = Instant::now();
            let now = stamps(&self.config);
            if now != state.stamps {
                // Said once for each change.
                state.stamps = now;
                match read(&self.config) {
                    Ok(acceptor) => {
                        tracing::info!("the TLS certificate was read again");
                        state.acceptor = acceptor;
                    }
                    Err(e) => tracing::error!(
                        "the new TLS certificate cannot be used, the one before serves on: {e:#}"
                    ),
                }
            }
        }
        state.acceptor.clone()
    }
}

fn stamps(config: &ServeConfig) -> [Option<Stamp>; 2] {
    [stamp(&config.tls_certificate), stamp(&config.tls_key)]
}

fn read(config: &ServeConfig) -> anyhow::Result<TlsAcceptor> {
    choose_tls();
    let (certificate, key) = (&config.tls_certificate, &config.tls_key);
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&text(certificate, "serve.tls-certificate")?)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} (serve.tls-certificate) is not PEM", certificate.display()))?;
    if chain.is_empty() {
        bail!("{} (serve.tls-certificate) has no certificate in PEM", certificate.display());
    }
    let private = PrivateKeyDer::from_pem_slice(&text(key, "serve.tls-key")?)
        .with_context(|| format!("{} (serve.tls-key) has no private key in PEM", key.display()))?;
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| {
            format!(
                "{} (serve.tls-key) is not the key of the certificate in {}",
                key.display(),
                certificate.display()
            )
        })?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

fn text(path: &Path, key: &str) -> anyhow::Result<Vec<u8>> {
    read_file(path, ServeConfig::TLS_FILE)
        .with_context(|| format!("{} ({key}) cannot be read", path.display()))
}
