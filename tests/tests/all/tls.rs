//! The host's own HTTPS.

use std::{path::PathBuf, process::Stdio, time::Duration};

use layby_tests::{
    Authority, Setup, command,
    command::{Done, layby},
    eventually,
    host::replace,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

/// A folder whose configuration names a certificate and a key in it.
pub(super) fn setup() -> (Setup, [PathBuf; 2]) {
    let setup = Setup::new().plugin("echo", "");
    let files = ["host.pem", "host.key"].map(|name| setup.root().join(name));
    let [certificate, key] = files.each_ref().map(|path| path.display().to_string());
    let config = format!("[serve]\ntls-certificate = {certificate:?}\ntls-key = {key:?}\n");
    (setup.config(&config), files)
}

pub(super) fn put(authority: &Authority, files: &[PathBuf; 2]) {
    for (from, to) in authority.pair("DNS:localhost", 30).iter().zip(files) {
        replace(to, &std::fs::read(from).unwrap());
    }
}

/// A call of a real client that trusts this authority.
async fn call(setup: &Setup, authority: &Authority, url: &str) -> Done {
    let mut client = layby(setup.root(), ["call", "--url", url, "echo", r#"{"text":"hi"}"#]);
    client.env("SSL_CERT_FILE", authority.certificate());
    command::run(client).await
}

/// A host that lives as long as this, and its port.
pub(super) async fn serve(setup: &Setup) -> (tokio::process::Child, u16) {
    let mut serve = tokio::process::Command::from(setup.command());
    let log = std::fs::File::create(setup.root().join("host.log")).unwrap();
    serve.kill_on_drop(true).stdout(Stdio::piped()).stderr(log);
    let mut serve = serve.spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("https://")).unwrap();
    let port = url.trim_end_matches("/mcp").rsplit(':').next().unwrap().parse().unwrap();
    (serve, port)
}

#[tokio::test]
async fn a_certificate_is_served_and_renewed_without_a_restart() {
    let (setup, files) = setup();
    let [one, two] = [Authority::new(), Authority::new()];
    put(&one, &files);
    let log = setup.root().join("host.log");
    let (_serve, port) = serve(&setup).await;
    let url = format!("https://localhost:{port}/mcp");

    let done = eventually("the plugin serves", || async {
        Some(call(&setup, &one, &url).await).filter(|done| done.code == Some(0))
    })
    .await;
    assert_eq!(done.out.trim(), "hi");
    let other = call(&setup, &two, &url).await;
    assert_ne!(other.code, Some(0), "its certificate is not of that authority: {other:?}");
    let plain = call(&setup, &one, &format!("http://localhost:{port}/mcp")).await;
    assert_ne!(plain.code, Some(0), "{plain:?}");

    put(&two, &files);
    eventually("the new certificate", || async {
        (call(&setup, &two, &url).await.code == Some(0)).then_some(())
    })
    .await;
    replace(&files[0], b"no certificate");
    eventually("it is said", || async {
        // It is looked at as connections come.
        assert_eq!(call(&setup, &two, &url).await.code, Some(0), "the one before serves on");
        std::fs::read_to_string(&log).unwrap().contains("the one before serves on").then_some(())
    })
    .await;

    // A client that never says what it wants is let go.
    let mut silent = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), silent.read(&mut [0; 16])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
}

#[tokio::test]
async fn what_is_no_pair_is_refused_at_the_start() {
    let (setup, files) = setup();
    let refused = setup.start_failing().await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("serve.tls-certificate"), "{refused:?}");

    let [one, two] = [Authority::new(), Authority::new()];
    put(&one, &files);
    std::fs::copy(&two.pair("DNS:localhost", 30)[1], &files[1]).unwrap();
    let refused = setup.start_failing().await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("not the key of the certificate"), "{refused:?}");
}
