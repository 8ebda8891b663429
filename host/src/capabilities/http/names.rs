//! Which addresses a name has: asked once in each exchange.

use std::net::SocketAddr;

use wasmtime_wasi_http::Error;

/// Who is asked.
#[derive(Clone, Debug, Default)]
pub(super) enum Names {
    /// The machine's own resolver.
    #[default]
    System,
    /// A name server of a test's.
    #[cfg(any(test, feature = "test-hooks"))]
    Server(SocketAddr),
    /// Every name has these.
    #[cfg(test)]
    Fixed(Vec<std::net::IpAddr>),
}

impl Names {
    /// Names the server that a test has in place of the machine's resolver, as `ADDRESS:PORT`.
    #[cfg(feature = "test-hooks")]
    const VARIABLE: &str = "LAYBYTEST_DNS";

    /// Whom this process asks.
    pub(super) fn of_process() -> Self {
        #[cfg(feature = "test-hooks")]
        if let Some(server) = std::env::var(Self::VARIABLE).ok().and_then(|text| text.parse().ok()) {
            return Self::Server(server);
        }
        Self::System
    }

    /// The addresses of `name`, in the order in which they are to be tried.
    ///
    /// # Errors
    /// There are none, or nobody says.
    pub(super) async fn look_up(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let unknown = || Error::DnsError { rcode: None, info_code: None };
        let found = match self {
            Self::System => {
                tokio::net::lookup_host((name, port)).await.map_err(|_| unknown())?.collect::<Vec<_>>()
            }
            #[cfg(any(test, feature = "test-hooks"))]
            Self::Server(server) => {
                let all = query::all(*server, name).await.map_err(|_| unknown())?;
                all.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
            }
            #[cfg(test)]
            Self::Fixed(all) => all.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
        };
        if found.is_empty() { Err(unknown()) } else { Ok(found) }
    }
}

/// As much of DNS (RFC 1035) as a test's server speaks.
#[cfg(any(test, feature = "test-hooks"))]
mod query {
    use std::{
        io,
        net::{IpAddr, SocketAddr},
    };

    use tokio::net::UdpSocket;

    const A: u16 = 1;
    const AAAA: u16 = 28;
    /// Bytes of what goes before the question.
    const HEADER: usize = 12;

    /// Both kinds of addresses, as `getaddrinfo` asks for them.
    pub(super) async fn all(server: SocketAddr, name: &str) -> io::Result<Vec<IpAddr>> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(server).await?;
        let mut found = Vec::new();
        for kind in [A, AAAA] {
            socket.send(&question(kind, name)).await?;
            let mut bytes = [0; 4096];
            let n = socket.recv(&mut bytes).await?;
            let answer = bytes.get(..n).unwrap_or_default();
            found.extend(addresses(answer, kind).ok_or(io::ErrorKind::InvalidData)?);
        }
        Ok(found)
    }

    fn question(kind: u16, name: &str) -> Vec<u8> {
        let mut bytes = vec![0, kind as u8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            bytes.push(u8::try_from(label.len()).unwrap_or(63));
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend([kind.to_be_bytes(), 1u16.to_be_bytes()].concat());
        bytes
    }

    fn addresses(answer: &[u8], kind: u16) -> Option<Vec<IpAddr>> {
        let short = |at: usize| Some(u16::from_be_bytes([*answer.get(at)?, *answer.get(at + 1)?]));
        let name_end = |mut at: usize| loop {
            match *answer.get(at)? {
                0 => break Some(at + 1),
                pointer if pointer & 0xc0 == 0xc0 => break Some(at + 2),
                label => at += 1 + usize::from(label),
            }
        };
        let mut at = name_end(HEADER)? + 4;
        let mut found = Vec::new();
        for _ in 0..short(6)? {
            at = name_end(at)?;
            let (is, len) = (short(at)?, usize::from(short(at + 8)?));
            let data = answer.get(at + 10..at + 10 + len)?;
            if is == kind {
                found.push(match kind {
                    A => IpAddr::from(<[u8; 4]>::try_from(data).ok()?),
                    _ => IpAddr::from(<[u8; 16]>::try_from(data).ok()?),
                });
            }
            at += 10 + len;
        }
        Some(found)
    }
}
