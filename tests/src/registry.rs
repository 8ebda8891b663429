//! A real OCI registry, `docker-registry` of Debian's packages, and its API for who publishes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{client::http, guests::target, issuer::free_port, wait::eventually};

/// The user of a registry that wants one.
pub const USER: &str = "ada";
/// The user's password.
pub const PASSWORD: &str = "open-sesame";
/// The password, as `htpasswd -B` writes it.
const HASHED: &str = "$2b$04$abcdefghijklmnopqrstuuXcjcm5avyCiJoD2uS24xa2lb6fjMB3G";

/// Media type of a component's layer.
pub const WASM: &str = "application/wasm";
/// Media type of a manifest.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The registry; it ends with this value.
pub struct Registry {
    folder: TempDir,
    port: u16,
    child: Child,
}

impl Registry {
    /// One that everybody may use.
    ///
    /// # Panics
    /// Without `docker-registry`.
    pub async fn open() -> Self {
        let folder = TempDir::with_prefix("layby-registry-").expect("a temporary folder");
        let port = free_port();
        let this = Self { child: serve(folder.path(), port, ""), folder, port };
        this.listens().await;
        this
    }

    /// Starts again on the same storage and port, with more lines in its configuration.
    ///
    /// # Panics
    /// If it does not end or start.
    pub async fn with(mut self, more: &str) -> Self {
        self.child.kill().await.expect("it ends");
        self.child = serve(self.folder.path(), self.port, more);
        self.listens().await;
        self
    }

    /// Starts again, and lets in [`USER`] with [`PASSWORD`] alone.
    ///
    /// # Panics
    /// As [`Registry::with`].
    pub async fn with_password(self, more: &str) -> Self {
        let file = self.folder.path().join("users");
        fs::write(&file, format!("{USER}:{HASHED}\n")).expect("a file can be written");
        let auth = format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n{more}", file.display());
        self.with(&auth).await
    }

    async fn listens(&self) {
        eventually("the registry listens", || async {
            tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.ok().map(drop)
        })
        .await;
    }

    /// `127.0.0.1:PORT`.
    pub fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn url(&self) -> String {
        format!("http://{}", self.name())
    }

    /// Uploads bytes; their digest.
    ///
    /// # Panics
    /// If the registry does not take them.
    pub async fn blob(&self, repository: &str, bytes: &[u8]) -> String {
        let start = http().post(format!("{}/v2/{repository}/blobs/uploads/", self.url()));
        let started = start.send().await.expect("the registry answers");
        assert_eq!(started.status(), 202);
        let location = started.headers()["location"].to_str().expect("a URL").to_owned();
        let digest = digest(bytes);
        // The location has a query already.
        let put = http().put(format!("{location}&digest={digest}")).body(bytes.to_vec());
        assert_eq!(put.send().await.expect("the registry answers").status(), 201);
        digest
    }

    /// Puts a manifest under a tag; its digest.
    ///
    /// # Panics
    /// If the registry does not take it.
    pub async fn manifest(&self, repository: &str, tag: &str, manifest: &Value) -> String {
        let kind = manifest["mediaType"].as_str().unwrap_or(MANIFEST).to_owned();
        let text = manifest.to_string();
        let url = format!("{}/v2/{repository}/manifests/{tag}", self.url());
        let put = http().put(url).header("content-type", kind).body(text.clone());
        let answer = put.send().await.expect("the registry answers");
        let status = answer.status();
        assert_eq!(status, 201, "{}", answer.text().await.unwrap_or_default());
        digest(text.as_bytes())
    }

    /// Publishes layers of these media types as an artefact; the manifest's digest.
    pub async fn publish(&self, repository: &str, tag: &str, layers: &[(&str, &[u8])]) -> String {
        let config = self.blob(repository, b"{}").await;
        let mut all = Vec::new();
        for (kind, bytes) in layers {
            let digest = self.blob(repository, bytes).await;
            all.push(json!({ "mediaType": kind, "digest": digest, "size": bytes.len() }));
        }
        let config =
            json!({ "mediaType": "application/vnd.wasm.config.v0+json", "digest": config, "size": 2 });
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": all });
        self.manifest(repository, tag, &manifest).await
    }

    /// Where the registry keeps the bytes of `digest`.
    pub fn stored(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = "storage/docker/registry/v2/blobs/sha256";
        self.folder.path().join(blobs).join(&hex[..2]).join(hex).join("data")
    }
}

/// `sha256:HEX` of `bytes`.
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// What says who asks, after `Basic`.
pub fn basic(user: &str, password: &str) -> String {
    BASE64_STANDARD.encode(format!("{user}:{password}"))
}

fn serve(folder: &Path, port: u16, more: &str) -> Child {
    let storage = folder.join("storage");
    // What a test adds to the part of HTTP comes first.
    let text = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
         http:\n  addr: 127.0.0.1:{port}\n  secret: test\n{more}",
        storage.display()
    );
    let config = folder.join("config.yml");
    fs::write(&config, text).expect("a file can be written");
    let unpacked = target().join("tools/docker-registry/usr/bin/docker-registry");
    Command::new(if unpacked.exists() { unpacked } else { "docker-registry".into() })
        .args(["serve".as_ref(), config.as_os_str()])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("log")).expect("a file can be made"))
        .kill_on_drop(true)
        .spawn()
        .expect("docker-registry is missing: run `cargo xtask registry`")
}
