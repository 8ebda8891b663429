//! A real OAuth authorization server: `tests/clients/issuer`.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicU16, Ordering},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::client::http;

/// The server; it ends with this value.
pub struct Issuer {
    url: String,
    resource: String,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

/// A port that is free now.
///
/// # Panics
/// Where none is.
pub fn free_port() -> u16 {
    // Below those that the system gives away, and another for each test of a process.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + u16::try_from(std::process::id() % 60).unwrap_or_default() * 200;
    let mut ports = (0..200).map(|_| start + NEXT.fetch_add(1, Ordering::Relaxed) % 200);
    ports.find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

impl Issuer {
    /// Starts it on `port`; its tokens are for `resource`, and signed by ES256.
    ///
    /// # Panics
    /// If its packages are not installed, or it does not start.
    pub async fn start(port: u16, resource: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clients/issuer");
        let advice = "run `cargo xtask test`, which installs all clients";
        assert!(
            folder.join("node_modules").exists(),
            "the packages of the issuer are not installed: {advice}"
        );
        let node = std::env::var_os("LAYBY_TESTS_NODE").unwrap_or_else(|| "node".into());
        let mut child = Command::new(node)
            .arg(folder.join("issuer.mjs"))
            .args([&port.to_string(), resource])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the issuer starts");
        let commands = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let url = format!("http://127.0.0.1:{port}");
        let mut this = Self { url, resource: resource.into(), commands, answers, _child: child };
        this.answered("ready").await;
        this
    }

    /// The issuer's own name.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Withdraws its keys, and signs with another one by this algorithm.
    pub async fn sign_with(&mut self, algorithm: &str) {
        self.tell(&format!("keys {algorithm}")).await;
    }

    /// Lets its clock be so far ahead of the time.
    pub async fn be_ahead(&mut self, seconds: i64) {
        self.tell(&format!("clock {seconds}")).await;
    }

    /// An access token of `client` for this resource.
    pub async fn token(&self, client: &str, scope: &str) -> String {
        self.token_for(client, scope, &self.resource).await
    }

    /// An access token for another one.
    ///
    /// # Panics
    /// If the issuer gives none.
    pub async fn token_for(&self, client: &str, scope: &str, resource: &str) -> String {
        let form =
            format!("grant_type=client_credentials&scope={}&resource={resource}", scope.replace(' ', "+"));
        let request = http()
            .post(format!("{}/token", self.url))
            .basic_auth(client, Some(format!("{client}-secret")))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let answer: serde_json::Value =
            request.send().await.expect("the issuer answers").json().await.expect("JSON");
        answer["access_token"].as_str().unwrap_or_else(|| panic!("no token: {answer}")).to_owned()
    }

    async fn tell(&mut self, command: &str) {
        self.commands.write_all(format!("{command}\n").as_bytes()).await.expect("the issuer reads");
        self.answered("done").await;
    }

    async fn answered(&mut self, what: &str) {
        loop {
            let line = tokio::time::timeout(crate::wait::BOUND, self.answers.next_line()).await;
            let line = line.expect("the issuer answers in time").expect("a line").expect("it goes on");
            if line == what {
                return;
            }
        }
    }
}
