//! How an exchange's end is kept in the journal: never empty, because that says that nothing was sent. In its place there
//! may be a [`Choice`], where the outcome was unknown.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use wasmtime_wasi_http::Error;

use super::send::Answer;
use crate::capabilities::unknown::Choice;

const ANSWER: u8 = 1;
const ERROR: u8 = 2;
/// No size goes with the error.
const NO_SIZE: u64 = u64::MAX;

/// Makes an error, with the number that goes with it.
type Make = fn(u64) -> Error;

/// Every error that an exchange can end with. The numbers are part of the format: never change or reuse one.
const ERRORS: [(u8, Make); 24] = [
    (1, |_| Error::HttpRequestDenied),
    (2, |_| Error::HttpRequestUriTooLong),
    (3, |_| Error::HttpRequestUriInvalid),
    (4, |_| Error::HttpRequestMethodInvalid),
    (5, |n| Error::HttpRequestBodySize(size(n))),
    (6, |n| Error::HttpRequestHeaderSectionSize(size(n).and_then(|n| u32::try_from(n).ok()))),
    (7, |n| Error::HttpResponseHeaderSectionSize(size(n).and_then(|n| u32::try_from(n).ok()))),
    (8, |n| Error::HttpResponseBodySize(size(n))),
    (9, |_| Error::HttpResponseIncomplete),
    (10, |_| Error::HttpResponseTimeout),
    (11, |_| Error::HttpProtocolError),
    (12, |_| Error::DnsError { rcode: None, info_code: None }),
    (13, |_| Error::DestinationNotFound),
    (14, |_| Error::DestinationUnavailable),
    (15, |_| Error::DestinationIpProhibited),
    (16, |_| Error::DestinationIpUnroutable),
    (17, |_| Error::ConnectionRefused),
    (18, |_| Error::ConnectionTerminated),
    (19, |_| Error::ConnectionTimeout),
    (20, |_| Error::ConnectionReadTimeout),
    (21, |_| Error::TlsProtocolError),
    (22, |_| Error::TlsCertificateError),
    (23, |n| Error::TlsAlertReceived {
        alert_id: size(n).and_then(|n| u8::try_from(n).ok()),
        alert_message: None,
    }),
    (24, |_| Error::ConfigurationError),
];

fn size(n: u64) -> Option<u64> {
    (n != NO_SIZE).then_some(n)
}

/// The number that goes with `error`.
fn detail(error: &Error) -> u64 {
    let size = match error {
        Error::HttpRequestBodySize(n) | Error::HttpResponseBodySize(n) => *n,
        Error::HttpRequestHeaderSectionSize(n) | Error::HttpResponseHeaderSectionSize(n) => n.map(u64::from),
        Error::TlsAlertReceived { alert_id, .. } => alert_id.map(u64::from),
        _ => None,
    };
    size.unwrap_or(NO_SIZE)
}

/// How an exchange ended.
pub(super) fn encode(end: &Result<Answer, Error>) -> Vec<u8> {
    let mut out = Vec::new();
    match end {
        Ok(answer) => {
            out.push(ANSWER);
            out.extend(answer.status.as_u16().to_le_bytes());
            out.extend((answer.headers.len() as u32).to_le_bytes());
            for (name, value) in &answer.headers {
                put(&mut out, name.as_str().as_bytes());
                put(&mut out, value.as_bytes());
            }
            out.extend_from_slice(&answer.body);
        }
        Err(error) => {
            out.push(ERROR);
            let n = detail(error);
            let same = |of: &Error| std::mem::discriminant(of) == std::mem::discriminant(error);
            let code = ERRORS.iter().find(|(_, make)| same(&make(n))).map_or(11, |(code, _)| *code);
            out.push(code);
            out.extend(n.to_le_bytes());
        }
    }
    out
}

/// `None` where the bytes are nothing that [`encode`] makes.
pub(super) fn decode(bytes: &[u8]) -> Option<Result<Answer, Error>> {
    let (tag, mut from) = bytes.split_first()?;
    if *tag == ERROR {
        let (code, n) = from.split_first()?;
        let n = u64::from_le_bytes(n.try_into().ok()?);
        return ERRORS.iter().find(|(known, _)| known == code).map(|(_, make)| Err(make(n)));
    }
    if *tag != ANSWER {
        return None;
    }
    let status = u16::from_le_bytes(take(&mut from)?);
    let count = u32::from_le_bytes(take(&mut from)?);
    let mut headers = HeaderMap::new();
    for _ in 0..count {
        let name = HeaderName::from_bytes(part(&mut from)?).ok()?;
        headers.append(name, HeaderValue::from_bytes(part(&mut from)?).ok()?);
    }
    let body = Bytes::copy_from_slice(from);
    Some(Ok(Answer { status: StatusCode::from_u16(status).ok()?, headers, body }))
}

/// A recorded end, for people.
pub fn describe(bytes: &[u8]) -> String {
    if let Some(choice) = Choice::decode(bytes) {
        return choice.describe();
    }
    match decode(bytes) {
        None if bytes.is_empty() => "nothing was sent".to_owned(),
        None => format!("{} bytes", bytes.len()),
        Some(Ok(answer)) => format!("{}, {} bytes", answer.status.as_u16(), answer.body.len()),
        Some(Err(error)) => error.to_string(),
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*array)
}

fn part<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::from_le_bytes(take(from)?);
    let (part, rest) = from.split_at_checked(usize::try_from(len).ok()?)?;
    *from = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_end_comes_back() {
        let mut headers = HeaderMap::new();
        headers.append("set-cookie", HeaderValue::from_static("a"));
        headers.append("set-cookie", HeaderValue::from_bytes(b"\xff").unwrap());
        let answer = Answer { status: StatusCode::IM_A_TEAPOT, headers, body: Bytes::from_static(b"tea") };
        let bytes = encode(&Ok(answer.clone()));
        assert_eq!(decode(&bytes).unwrap().unwrap(), answer);
        assert_eq!(describe(&bytes), "418, 3 bytes");
        for (code, make) in ERRORS {
            for n in [0, 100, NO_SIZE] {
                let bytes = encode(&Err(make(n)));
                assert_eq!(bytes[1], code);
                let back = decode(&bytes).unwrap().unwrap_err();
                assert_eq!(format!("{back:?}"), format!("{:?}", make(n)));
            }
        }
    }

    #[test]
    fn what_is_damaged_is_none() {
        let whole = encode(&Ok(Answer {
            status: StatusCode::OK,
            headers: [(HeaderName::from_static("a"), HeaderValue::from_static("b"))].into_iter().collect(),
            body: Bytes::new(),
        }));
        for end in 0..whole.len() {
            assert!(decode(&whole[..end]).is_none(), "{end}");
        }
        assert!(decode(&[ERROR, 99, 0, 0, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(decode(&[9, 9]).is_none());
    }
}
