//! Certificates of a test's own authority, by the `openssl` command, and servers that show them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// An authority.
pub struct Authority {
    folder: TempDir,
}

/// A server; it ends with this value.
pub struct TlsServer {
    port: u16,
    serving: JoinHandle<()>,
}

impl Authority {
    /// Makes one.
    ///
    /// # Panics
    /// Without `openssl`.
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("layby-tls-").expect("a temporary folder");
        let authority = Self { folder };
        authority.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-subj",
            "/CN=a test's authority",
            "-days",
            "30",
        ]);
        authority
    }

    /// Its own certificate, for `SSL_CERT_FILE`.
    pub fn certificate(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Makes a certificate for `names` (as `DNS:localhost`; none for an old one with a common name only) which is good for
    /// `days`, fewer than none for one that has run out. The files of it and of its key, until the next is made.
    ///
    /// # Panics
    /// Without `openssl`.
    pub fn pair(&self, names: &str, days: i32) -> [PathBuf; 2] {
        let request = [
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            "key.pem",
            "-out",
            "request.pem",
            "-subj",
            "/CN=localhost",
        ];
        self.openssl(&request);
        let alternative = if names.is_empty() { String::new() } else { format!("subjectAltName={names}\n") };
        fs::write(self.path("more"), format!("{alternative}basicConstraints=CA:FALSE\n"))
            .expect("a file can be written");
        let days = days.to_string();
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            "request.pem",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            &days,
            "-extfile",
            "more",
            "-out",
            "certificate.pem",
        ]);
        ["certificate.pem", "key.pem"].map(|name| self.path(name))
    }

    /// Serves `ok` under a certificate as of [`Authority::pair`].
    ///
    /// # Panics
    /// Without `openssl`, or a free port.
    pub async fn serve(&self, names: &str, days: i32) -> TlsServer {
        let [certificate, key] = self.pair(names, days);
        let chain = vec![CertificateDer::from_pem_file(certificate).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("the key is the certificate's");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        TlsServer { port, serving }
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }

    fn openssl(&self, args: &[&str]) {
        let done = Command::new("openssl")
            .args(args)
            .current_dir(self.folder.path())
            .output()
            .expect("there is openssl");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl TlsServer {
    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
