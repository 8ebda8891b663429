//! One exchange of a run, recorded: a request is in the journal, and committed where the run is a task, before
//! anything of it is sent; its end is in the journal before the guest can know of it. In a replay nothing is sent.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, header, request::Parts};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::Semaphore;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::{
    Flights,
    addresses::Network,
    body,
    grants::{Target, Unfit},
    is_forbidden,
    names::Names,
    record,
    send::{self, Answer, Bounds, Failed, Leads, Way},
};
use crate::{
    base::{Clock as _, SystemClock, UnixMillis, failpoint, neutral_line},
    capabilities::{
        Abort, Audience, Caller, Granted,
        effects::{self, Unsent},
        secrets,
        unknown::{self, Choice, Deed, Unknown},
        wit_call::LogLevel,
    },
    config::Limits,
    journal::{Journal, Recalled},
};

/// Longest URL in a line of the log, in bytes.
const LOGGED: usize = 500;
/// Where a line is to be added.
const HTTP_GRANTS: &str = "grants.http of this plugin's policy";
/// Names a request that is sent again, so that its server does it once (draft-ietf-httpapi-idempotency-key-header).
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// What a guest gets of a request of which somebody says that it happened: it reached its server, and its answer is lost.
const HAPPENED: Error = Error::HttpResponseIncomplete;

/// What the exchanges of one run share.
pub(super) struct Shared {
    pub(super) granted: Arc<Granted>,
    pub(super) caller: Arc<dyn Caller>,
    pub(super) journal: Journal,
    pub(super) limits: Limits,
    pub(super) flights: Flights,
    pub(super) names: Names,
    /// Exchanges that may be under way.
    pub(super) room: Semaphore,
    /// Bytes of bodies so far.
    pub(super) bytes: AtomicU64,
}

/// A request that may be sent.
pub(super) struct Ready {
    pub(super) target: Target,
    /// It may be sent again.
    again: bool,
    /// Where its host's name may lead, beside the public internet.
    pub(super) networks: Vec<Network>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Shared {
    /// Counts bytes of a body; false where they are too many.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        before.saturating_add(bytes) <= self.limits.http_bytes.0
    }

    pub(super) fn over_bytes(&self) -> Abort {
        body::over(self.limits.http_bytes)
    }

    /// Tells the operator, once: what is replayed was told before.
    pub(super) fn warn(&self, text: &str) {
        if self.journal.speaks() {
            let text = neutral_line(text);
            self.caller.log(Audience::Operator, LogLevel::Warning, &text);
        }
    }

    /// The run ends, whatever its guest does: this exchange never does.
    async fn end(&self, abort: Abort) -> Result<Answer, Error> {
        self.flights.end_run(abort);
        std::future::pending().await
    }

    /// The exchange numbered `k`, from the guest's request to its end.
    pub(super) async fn exchange(
        &self,
        k: u32,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<Answer, Error> {
        let (head, body) = request.into_parts();
        let body = self.gathered(body).await;
        let hash = self.hash(&head, &body);
        let out = body.as_ref().map_or(0, Bytes::len);
        let deed = deed(&head);
        let recalled = match self.journal.recall(k, hash) {
            Ok(recalled) => recalled,
            Err(mismatch) => return self.end(Abort::Mismatch(mismatch)).await,
        };
        if let Some(end) = self.recorded(k, out, recalled.as_ref()).await {
            return end;
        }
        self.journal.live().await;
        let now = match effects::granted(&*self.caller).await {
            Ok(now) => now,
            Err(abort) => return self.end(abort).await,
        };
        let method = head.method.clone();
        let ready = self.ready(k, head, body, &now);
        // Where it is not granted any more, that does not say what became of it.
        let again = ready.as_ref().map_or(is_idempotent(method.as_str()), |ready| ready.again);
        let begins = match recalled {
            None => true,
            Some(_) if again => false,
            Some(recalled) => {
                if self.resolve(k, deed, recalled).await == Choice::Happened {
                    return Err(HAPPENED);
                }
                true
            }
        };
        // Closed before the instance goes: what waits for a place then must not get that of one that is dropped first.
        let Ok(_room) = self.room.acquire().await else { return std::future::pending().await };
        if begins {
            failpoint!("effect.before-start");
            self.journal.sent(k, hash, SystemClock.now().0);
        }
        let mut left = false;
        let end = match ready {
            Ok(mut ready) => {
                let unsent = Unsent::new(&self.journal, k);
                effects::committed(&*self.caller).await;
                failpoint!("effect.after-start-commit");
                let revealed = self.reveal(&mut ready).await;
                if !self.caller.may_send() {
                    // Said in the journal when this is dropped: nothing was sent.
                    let why =
                        "the lease is about to end, and another host may go on with this run".to_owned();
                    return self.end(Abort::Host(why)).await;
                }
                unsent.leaves();
                match revealed {
                    Err(error) => Err(error),
                    Ok(()) => {
                        left = true;
                        self.flights.sent(out);
                        let end = self.sent(ready, options).await;
                        failpoint!("effect.after-send");
                        end
                    }
                }
            }
            Err(error) => Err(error),
        };
        self.journal.answered(k, &record::encode(&end));
        failpoint!("effect.after-answer");
        if left && !again {
            // It may be parked or handed on meanwhile: its end goes with that.
            let waits = self.flights.grounded();
            effects::committed(&*self.caller).await;
            drop(waits);
            failpoint!("effect.after-end-commit");
        }
        end
    }

    /// The end that the journal has, if it has one.
    async fn recorded(
        &self,
        k: u32,
        out: usize,
        recalled: Option<&Recalled>,
    ) -> Option<Result<Answer, Error>> {
        let bytes = recalled?.answer.as_ref()?;
        match (record::decode(bytes), Choice::decode(bytes)) {
            (Some(end), _) => {
                self.flights.sent(out);
                if let Ok(answer) = &end {
                    self.takes(answer.body.len());
                }
                Some(end)
            }
            (None, Some(Choice::Happened)) => Some(Err(HAPPENED)),
            (None, Some(Choice::Retry | Choice::Stop)) => None,
            (None, None) => {
                let why = format!("the answer of request {k} in the journal cannot be read");
                Some(self.end(Abort::Host(why)).await)
            }
        }
    }

    /// What is to be done about a request that was under way when the run was last seen, and must not be sent twice; does
    /// not return where that is nothing.
    async fn resolve(&self, k: u32, deed: Deed, recalled: Recalled) -> Choice {
        let (number, at) = (u64::from(k), UnixMillis(recalled.at));
        let unknown = Unknown { deed, number, begun: recalled.starts, at };
        let choice = match recalled.answer.as_deref().and_then(Choice::decode) {
            Some(choice) => choice,
            None => {
                let waits = self.flights.grounded();
                let choice = unknown::choose(&*self.caller, &unknown).await;
                drop(waits);
                self.journal.answered(k, &choice.encode());
                choice
            }
        };
        if choice == Choice::Stop {
            self.flights.end_run(Abort::Unknown(unknown));
            return std::future::pending().await;
        }
        choice
    }

    /// The request as it is to be sent, where it is granted.
    pub(super) fn ready(
        &self,
        k: u32,
        head: Parts,
        body: Result<Bytes, Error>,
        now: &Granted,
    ) -> Result<Ready, Error> {
        let body = body?;
        let (target, granted_again, networks) = self.admit(&head, now)?;
        let mut headers = self.headers(head.headers)?;
        let again = granted_again || is_idempotent(target.method());
        if granted_again
            && !matches!(target.method(), "GET" | "HEAD" | "OPTIONS")
            && !headers.contains_key(KEY)
        {
            let half = |n: u8| self.journal.keyed(&[b"idempotency-key", &k.to_le_bytes(), &[n]]);
            let name = format!("{:016x}{:016x}", half(0), half(1));
            headers.insert(KEY, HeaderValue::from_str(&name).map_err(|_| Error::HttpProtocolError)?);
        }
        Ok(Ready { target, again, networks, headers, body })
    }

    /// The target of a request that is granted, whether grants say that it may be sent again, and the networks that they have
    /// for it.
    fn admit(&self, head: &Parts, now: &Granted) -> Result<(Target, bool, Vec<Network>), Error> {
        let (method, uri) = (head.method.as_str(), &head.uri);
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", |a| a.as_str());
        let path = uri.path_and_query().map_or("", |p| p.as_str());
        let target = match Target::of(method, scheme, authority, path) {
            Ok(target) => target,
            Err(Unfit::TooLong) => return Err(Error::HttpRequestUriTooLong),
            Err(Unfit::Never(why)) => {
                // Without what may be a password.
                let host = authority.rsplit('@').next().unwrap_or_default();
                let shown = format!("{method} {scheme}://{host}{}", uri.path());
                self.warn(&format!("denied: {}: {why}", cut(&shown)));
                return Err(Error::HttpRequestDenied);
            }
        };
        match self.allows(&target, now) {
            Some((again, networks)) => Ok((target, again, networks)),
            None => Err(self.denied(&target)),
        }
    }

    /// Where what the run began with and what policy grants `now` allow the target: whether both say that it may be sent
    /// again, and the networks that both have.
    fn allows(&self, target: &Target, now: &Granted) -> Option<(bool, Vec<Network>)> {
        let of = |granted: &Granted| {
            let allowing: Vec<_> = granted.http.iter().filter(|rule| rule.allows(target)).cloned().collect();
            let again = allowing.iter().map(|rule| rule.idempotent).reduce(|one, other| one || other)?;
            Some((again, allowing.into_iter().flat_map(|rule| rule.networks).collect::<Vec<_>>()))
        };
        let ((again, mut networks), (again_now, networks_now)) = (of(&self.granted)?, of(now)?);
        networks.retain(|network| networks_now.contains(network));
        Some((again & again_now, networks))
    }

    fn denied(&self, target: &Target) -> Error {
        // Only of ASCII, and without quotation marks: the same in TOML.
        let line = format!("{{ allow = {:?} }}", target.suggestion());
        self.deny(target, &format!("to allow it, add {line} to {HTTP_GRANTS}"));
        Error::HttpRequestDenied
    }

    fn deny(&self, target: &Target, why: &str) {
        self.warn(&format!("denied: {}; {why}", cut(&target.to_string())));
    }

    /// Tells that a granted request was not sent.
    fn deny_way(&self, target: &Target, leads: &Leads) {
        match leads {
            Leads::Nowhere(what) => self.deny(target, &format!("it leads to {what}: no grant allows that")),
            Leads::Within(addresses) => {
                let all: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
                let line = format!("{{ allow = {:?}, networks = {all:?} }}", target.suggestion());
                let all = all.join(", ");
                self.deny(target, &format!("it leads to {all}, not of the public internet; to allow it, add {line} to {HTTP_GRANTS}"));
            }
        }
    }

    /// Looks again whether the request is granted, because its commit may have taken long, and puts secrets into the
    /// headers, after all that is recorded of it. One without a value is not sent.
    async fn reveal(&self, ready: &mut Ready) -> Result<(), Error> {
        let now = match effects::granted(&*self.caller).await {
            Ok(now) => now,
            Err(abort) => return self.end(abort).await.map(drop),
        };
        let Some((_, networks)) = self.allows(&ready.target, &now) else {
            return Err(self.denied(&ready.target));
        };
        ready.networks = networks;
        let (env, now) = (&self.granted.grants.env, &now.grants.env);
        secrets::reveal(&mut ready.headers, env, now, self.limits.http_headers).await.map_err(|why| {
            self.warn(&format!("denied: {}: {why}", cut(&ready.target.to_string())));
            Error::HttpRequestDenied
        })
    }

    async fn sent(&self, ready: Ready, options: Option<RequestOptions>) -> Result<Answer, Error> {
        let Ready { target, headers, body, networks, .. } = ready;
        let most = self.limits.http_time.duration();
        let within = |own: Option<Duration>| own.map_or(most, |own| own.min(most));
        let options = options.unwrap_or_default();
        let bounds = Bounds {
            connect: within(options.connect_timeout),
            first_byte: within(options.first_byte_timeout),
            between_bytes: within(options.between_bytes_timeout),
            headers: self.limits.http_headers.as_usize(),
            body: self.limits.http_response_body.as_usize(),
        };
        let way = Way { names: &self.names, networks: &networks };
        let sent = tokio::time::timeout(most, send::send(&target, headers, body, &bounds, way)).await;
        let answer = sent.unwrap_or(Err(Failed::of(Error::HttpResponseTimeout))).map_err(|failed| {
            match &failed.told {
                Some(leads) => self.deny_way(&target, leads),
                None => tracing::debug!("{target}: {}", failed.error),
            }
            failed.error
        })?;
        if !self.takes(answer.body.len()) {
            self.warn(&format!("the run reached limits.http-bytes = {}", self.limits.http_bytes));
            return Err(Error::HttpResponseBodySize(Some(answer.body.len() as u64)));
        }
        Ok(answer)
    }

    /// The guest's headers, without what is the host's to say.
    fn headers(&self, mut headers: HeaderMap) -> Result<HeaderMap, Error> {
        headers.remove(header::CONTENT_LENGTH);
        // The guest cannot have put any of these in.
        let forbidden: Vec<_> = headers.keys().filter(|name| is_forbidden(name)).cloned().collect();
        for name in forbidden {
            headers.remove(name);
        }
        let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if size > self.limits.http_headers.as_usize() {
            return Err(Error::HttpRequestHeaderSectionSize(u32::try_from(size).ok()));
        }
        Ok(headers)
    }

    pub(super) async fn gathered(&self, body: WasiBody) -> Result<Bytes, Error> {
        let most = self.limits.http_request_body;
        match Limited::new(body, most.as_usize()).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(e) if e.is::<LengthLimitError>() => Err(Error::HttpRequestBodySize(Some(most.0))),
            Err(e) => Err(e.downcast::<Error>().map_or(Error::HttpProtocolError, |e| *e)),
        }
    }

    /// Names the guest's own request, before the host adds anything.
    fn hash(&self, head: &Parts, body: &Result<Bytes, Error>) -> u64 {
        let uri = head.uri.to_string();
        let mut headers: Vec<_> = head.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        // By name; several of one name keep their order.
        headers.sort_by_key(|(name, _)| *name);
        let mut parts: Vec<&[u8]> = vec![head.method.as_str().as_bytes(), uri.as_bytes()];
        for (name, value) in headers {
            parts.push(name.as_bytes());
            parts.push(value);
        }
        match body {
            Ok(body) => parts.push(body),
            Err(_) => parts.extend([&b"no"[..], b"body"]),
        }
        self.journal.keyed(&parts)
    }
}

/// True where the method alone says that a request can be sent twice (RFC 9110, 9.2.2).
fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS")
}

/// A request as its caller is told of it.
fn deed(head: &Parts) -> Deed {
    let uri = &head.uri;
    let authority = uri.authority().map_or("", |a| a.as_str());
    let url = format!("{}://{authority}{}", uri.scheme_str().unwrap_or_default(), uri.path());
    Deed::request(head.method.as_str(), &url)
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOGGED)]
}
