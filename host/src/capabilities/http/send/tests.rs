#![allow(clippy::unwrap_used, clippy::expect_used)]

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

const BOUNDS: Bounds = Bounds {
    connect: Duration::from_secs(20),
    first_byte: Duration::from_secs(20),
    between_bytes: Duration::from_secs(20),
    headers: 8 << 10,
    body: 1000,
};

const WAY: Way<'static> = Way { names: &Names::System, networks: &[] };

/// A server that answers one connection with `answer` once it has read a request's head, and tells what it read.
async fn serving(answer: Vec<u8>) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") && !read.ends_with(b"body") {
            let mut bytes = [0; 1024];
            let n = stream.read(&mut bytes).await.unwrap();
            if n == 0 {
                break;
            }
            read.extend_from_slice(&bytes[..n]);
        }
        let _ = stream.write_all(&answer).await;
        if answer.is_empty() {
            // Says nothing, and stays.
            std::future::pending::<()>().await;
        }
        String::from_utf8(read).unwrap()
    });
    (port, served)
}

async fn get(port: u16, path: &str, bounds: &Bounds) -> Result<Answer, Failed> {
    let target = Target::of("GET", "http", &format!("127.0.0.1:{port}"), path).unwrap();
    send(&target, HeaderMap::new(), Bytes::new(), bounds, WAY).await
}

fn name(failed: &Failed) -> String {
    format!("{:?}", failed.error)
}

#[tokio::test]
async fn what_is_sent_and_read() {
    let (port, served) = serving(b"HTTP/1.1 201 Yes\r\nx-a: b\r\ncontent-length: 2\r\n\r\nok".to_vec()).await;
    let target = Target::of("POST", "http", &format!("LOCALHOST:{port}"), "/a/../b?c=d").unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("x-mine", HeaderValue::from_static("1"));
    let answer = send(&target, headers, Bytes::from_static(b"body"), &BOUNDS, WAY).await.unwrap();
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (201, &b"ok"[..]));
    assert_eq!(answer.headers["x-a"], "b");
    let read = served.await.unwrap();
    assert_eq!(
        read.to_lowercase(),
        format!(
            "post /b?c=d http/1.1\r\nhost: localhost:{port}\r\nx-mine: 1\r\ncontent-length: 4\r\n\r\nbody"
        )
    );
}

#[tokio::test]
async fn bounds_hold() {
    let large = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'.'; 1001]].concat();
    let (port, _served) = serving(large).await;
    assert_eq!(name(&get(port, "/", &BOUNDS).await.unwrap_err()), "HttpResponseBodySize(Some(1000))");
    let heads = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    let (port, _served) = serving(heads.into_bytes()).await;
    assert_eq!(
        name(&get(port, "/", &BOUNDS).await.unwrap_err()),
        "HttpResponseHeaderSectionSize(Some(8192))"
    );
    let (port, served) = serving(Vec::new()).await;
    let short = Bounds { first_byte: Duration::from_millis(50), ..BOUNDS };
    assert_eq!(name(&get(port, "/", &short).await.unwrap_err()), "HttpResponseTimeout");
    served.abort();
}

#[tokio::test]
async fn broken_answers_are_errors() {
    for (answer, error) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "HttpResponseIncomplete"),
        ("what?\r\n\r\n", "HttpProtocolError"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", "HttpProtocolError"),
    ] {
        let (port, _served) = serving(answer.as_bytes().to_vec()).await;
        assert_eq!(name(&get(port, "/", &BOUNDS).await.unwrap_err()), error, "{answer}");
    }
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    assert_eq!(name(&get(free, "/", &BOUNDS).await.unwrap_err()), "ConnectionRefused");
}

#[tokio::test]
async fn a_redirect_is_the_guests() {
    let away = b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";
    let (port, _served) = serving(away.to_vec()).await;
    assert_eq!(get(port, "/", &BOUNDS).await.unwrap().status, 302);
}

#[test]
fn every_address_is_checked() {
    let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 80);
    let name = HostName::Name("a.example".into());
    assert!(check(&name, &[at("1.1.1.1"), at("2606:4700::1")], &[]).is_ok());
    for bad in
        ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "fd00::1"]
    {
        let refused = check(&name, &[at("1.1.1.1"), at(bad)], &[]).unwrap_err();
        assert_eq!(super::tests::name(&refused), "DestinationIpProhibited", "{bad}");
        assert_eq!(refused.told, Some(Leads::Within(vec![at(bad).ip().to_canonical()])));
        let granted = [Network::parse(&at(bad).ip().to_canonical().to_string()).unwrap()];
        assert!(check(&name, &[at("1.1.1.1"), at(bad)], &granted).is_ok(), "{bad}");
        assert!(check(&name, &[at(bad), at("192.168.7.7")], &granted).is_err(), "{bad}");
    }
    let here = HostName::Name("localhost".into());
    assert!(check(&here, &[at("127.0.0.1"), at("::1")], &[]).is_ok());
    assert!(check(&here, &[at("127.0.0.1"), at("10.0.0.1")], &[]).is_err());
    let own = SocketAddr::from(([127, 0, 0, 1], 7));
    crate::base::listens(own);
    let all = [Network::parse("127.0.0.0/8").unwrap(), Network::parse("::1").unwrap()];
    for own in [
        own,
        "[::1]:7".parse().unwrap(),
        "[::ffff:127.0.0.1]:7".parse().unwrap(),
        "0.0.0.0:7".parse().unwrap(),
    ] {
        for host in [&here, &HostName::Ip(own.ip()), &name] {
            assert_eq!(
                super::tests::name(&check(host, &[own], &all).unwrap_err()),
                "DestinationIpProhibited"
            );
        }
    }
    assert!(check(&HostName::Ip(at("10.0.0.1").ip()), &[at("10.0.0.1")], &[]).is_ok(), "a grant names it");
    assert!(check(&HostName::Ip(at("0.0.0.0").ip()), &[at("0.0.0.0")], &[]).is_err());
    let zero = [Network::parse("0.0.0.0/1").unwrap()];
    assert!(check(&name, &[at("0.0.0.0")], &zero).is_err(), "it is no host's address");
}
