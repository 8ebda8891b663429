//! HTTP/1.1 as far as the benchmark needs it: one kept connection, whole requests, answers with a
//! length.

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Larger answers are a mistake.
const MAX_ANSWER: usize = 1 << 20;

/// Host and path of a URL.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) authority: String,
    pub(super) path: String,
}

impl Endpoint {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("http://").with_context(|| format!("{url:?} is not an http URL"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Self { authority: authority.to_owned(), path: format!("/{path}") })
    }

    /// A whole POST request.
    pub(super) fn post(&self, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
        let mut text = format!("POST {} HTTP/1.1\r\nhost: {}\r\n", self.path, self.authority);
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        text.into_bytes()
    }
}

/// A connection that is kept.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Status and body.
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) body: &'a [u8],
}

impl Connection {
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Self> {
        let stream = TcpStream::connect(&endpoint.authority)
            .await
            .with_context(|| format!("cannot connect to {}", endpoint.authority))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; 8192] })
    }

    /// Sends `request` and waits for the whole answer.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await.context("cannot send")?;
        let mut filled = 0;
        let mut head: Option<(u16, usize, usize)> = None;
        loop {
            if filled == self.buffer.len() {
                ensure!(filled < MAX_ANSWER, "the answer is over {MAX_ANSWER} bytes");
                self.buffer.resize(filled * 2, 0);
            }
            let read = self.stream.read(&mut self.buffer[filled..]).await.context("cannot read")?;
            ensure!(read > 0, "the server closed the connection");
            filled += read;
            if head.is_none() {
                head = parse_head(&self.buffer[..filled])?;
            }
            if let Some((status, start, length)) = head
                && filled >= start + length
            {
                ensure!(filled == start + length, "there is more than one answer");
                return Ok(Answer { status, body: &self.buffer[start..filled] });
            }
        }
    }
}

/// Status, where the body starts, how long it is; none where the head is not yet whole.
fn parse_head(bytes: &[u8]) -> Result<Option<(u16, usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).context("the head is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|s| s.parse().ok());
    let Some(status) = status else { bail!("not an answer: {head:?}") };
    for line in lines {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            let length = value.trim().parse().with_context(|| format!("a length of {value:?}"))?;
            return Ok(Some((status, end + 4, length)));
        }
    }
    bail!("the answer has no length: {head:?}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn heads() {
        assert_eq!(parse_head(b"HTTP/1.1 200 OK\r\ncontent-le").unwrap(), None);
        let whole = b"HTTP/1.1 429 Slow\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(parse_head(whole).unwrap(), Some((429, whole.len() - 2, 2)));
        assert!(parse_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(parse_head(b"hello\r\n\r\n").is_err());
    }
}
