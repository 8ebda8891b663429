//! A client of a registry (OCI distribution specification 1.1, "Pull"; its tokens as Docker's registry has them).
//!
//! Whatever comes from there is bounded before it is read, and counts only by the digest that it was asked for by.

use std::error::Error as _;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::StreamExt as _;
use http_auth::{ChallengeRef, parse_challenges};
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE},
    redirect::{Attempt, Policy},
};
use serde::Deserialize;
use url::Url;

use super::{
    artifact::{MANIFESTS, short},
    credentials::{self, Credentials, PASSWORD, USER},
    reference::{Named, Speak, is_loopback},
};
use crate::{
    base::{ByteSize, Digest, choose_tls},
    commands::exit::Failure,
    config::RegistryRules,
};

/// A repository of a registry.
pub(super) struct Repository {
    http: reqwest::Client,
    base: Url,
    named: Named,
    plain: Plain,
    /// What says who asks, once the registry has wanted to know.
    authorization: Option<HeaderValue>,
}

/// Where plain HTTP may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plain {
    Nowhere,
    /// The registry is on this machine's loopback.
    Loopback,
    /// The operator says so.
    Anywhere,
}

impl Plain {
    fn allows(self, url: &Url) -> bool {
        match (url.scheme(), self) {
            ("https", _) | ("http", Self::Anywhere) => true,
            ("http", Self::Loopback) => is_loopback(url),
            _ => false,
        }
    }
}

/// What a token server answers: the one or the other.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

fn failed(text: impl Into<String>) -> Failure {
    Failure::unreachable("registry_failed", text)
}

impl Repository {
    pub(super) fn open(named: Named, speak: Speak) -> Result<Self, Failure> {
        let base = named.base(speak)?;
        let plain = match (base.scheme(), speak) {
            (_, Speak::Plain) => Plain::Anywhere,
            ("http", _) => Plain::Loopback,
            _ => Plain::Nowhere,
        };
        choose_tls();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(RegistryRules::CONNECT.duration())
            .read_timeout(RegistryRules::SILENCE.duration())
            .user_agent(concat!("layby/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::custom(move |attempt| follow(attempt, plain)));
        if is_loopback(&base) {
            // What is on this machine is not asked for elsewhere.
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|e| failed(format!("no HTTP client: {e}")))?;
        Ok(Self { http, base, named, plain, authorization: None })
    }

    /// The manifest, and its digest: the one that was asked for, where one was.
    pub(super) async fn manifest(&mut self) -> Result<(Vec<u8>, Digest), Failure> {
        let url = self.at(&format!("manifests/{}", self.named.wanted()))?;
        let most = RegistryRules::MANIFEST;
        let bytes = self.get(url, "the manifest", most).await?.ok_or_else(|| {
            Failure::refused(
                "registry_artifact",
                format!("the manifest is larger than {most}: it is none of one component"),
            )
        })?;
        let digest = Digest::of(&bytes);
        match self.named.digest {
            Some(wanted) if wanted != digest => Err(other_bytes("the manifest", wanted, digest)),
            _ => Ok((bytes, digest)),
        }
    }

    /// The bytes of this digest, which are `size`.
    pub(super) async fn blob(&mut self, wanted: Digest, size: ByteSize) -> Result<Vec<u8>, Failure> {
        let url = self.at(&format!("blobs/sha256:{wanted}"))?;
        let bytes = self.get(url, "the component", size).await?.ok_or_else(|| {
            Failure::refused(
                "registry_digest",
                format!("the registry sends more than the {size} that the manifest says: nothing was added"),
            )
        })?;
        let digest = Digest::of(&bytes);
        if digest == wanted { Ok(bytes) } else { Err(other_bytes("the component", wanted, digest)) }
    }

    fn at(&self, path: &str) -> Result<Url, Failure> {
        self.base.join(path).map_err(|e| failed(format!("{path} is no path: {e}")))
    }

    /// The body at `url`; none where it is larger than `most`.
    async fn get(&mut self, url: Url, what: &str, most: ByteSize) -> Result<Option<Vec<u8>>, Failure> {
        let mut response = self.send(&url).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let known = self.authorize(response.headers()).await?;
            response = self.send(&url).await?;
            if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                return Err(unauthenticated(self.named.registry(), known.as_deref()));
            }
        }
        match response.status() {
            StatusCode::OK => body(response, most).await.map_err(|e| unreachable(&url, &e)),
            StatusCode::NOT_FOUND => {
                let (registry, repository) = (self.named.registry(), self.named.repository());
                let text = format!(
                    "{registry} has not {what} of {repository}, {}: check the reference",
                    self.named.wanted()
                );
                Err(Failure::refused("registry_unknown", text))
            }
            StatusCode::FORBIDDEN => Err(unauthenticated(self.named.registry(), None)),
            status => {
                Err(failed(format!("{} answers {status} where {what} is asked for", self.named.registry())))
            }
        }
    }

    async fn send(&self, url: &Url) -> Result<Response, Failure> {
        let mut request = self.http.get(url.clone()).header(ACCEPT, format!("{MANIFESTS}, */*"));
        if let Some(authorization) = &self.authorization {
            // Sent to the registry alone: a redirect to another server loses it.
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        request.send().await.map_err(|e| unreachable(url, &e))
    }

    /// Finds out what to say to a registry that asks who is there; tells where the credentials come from, if there are any.
    async fn authorize(&mut self, headers: &HeaderMap) -> Result<Option<String>, Failure> {
        let registry = self.named.registry().to_owned();
        // A helper program may take its time, and a person with it.
        let find = tokio::task::spawn_blocking(move || credentials::find(&registry));
        let known = find.await.map_err(|e| failed(format!("credentials cannot be looked for: {e}")))??;
        let said: Vec<String> = headers
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .map(str::to_owned)
            .collect();
        let challenges: Vec<ChallengeRef<'_>> =
            said.iter().filter_map(|text| parse_challenges(text).ok()).flatten().collect();
        let by = |scheme: &str| challenges.iter().find(|c| c.scheme.eq_ignore_ascii_case(scheme));
        let text = match (by("bearer"), by("basic"), &known) {
            (Some(bearer), ..) => format!("Bearer {}", self.token(bearer, known.as_ref()).await?),
            (None, Some(_), Some(known)) => basic(known),
            (None, Some(_), None) => return Err(unauthenticated(self.named.registry(), None)),
            (None, None, _) => {
                return Err(failed(format!(
                    "{} asks who is there by no known scheme",
                    self.named.registry()
                )));
            }
        };
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| failed("the token server gives a token that is none"))?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(known.map(|known| known.origin))
    }

    /// A token of the server that the registry names. It is told the credentials, as the registry itself would be.
    async fn token(&self, bearer: &ChallengeRef<'_>, known: Option<&Credentials>) -> Result<String, Failure> {
        let registry = self.named.registry();
        let of = |key: &str| {
            let found = bearer.params.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
            found.map(|(_, value)| value.to_unescaped())
        };
        let realm = of("realm").unwrap_or_default();
        let mut url =
            Url::parse(&realm).map_err(|_| failed(format!("{registry} names no server of tokens")))?;
        if !self.plain.allows(&url) {
            return Err(failed(format!(
                "{registry} names a server of tokens that is not under HTTPS: {}",
                place(&url)
            )));
        }
        let scope = of("scope").unwrap_or_else(|| format!("repository:{}:pull", self.named.repository()));
        url.query_pairs_mut().append_pair("scope", &scope);
        if let Some(service) = of("service") {
            url.query_pairs_mut().append_pair("service", &service);
        }
        let mut request = self.http.get(url.clone());
        if let Some(known) = known {
            request = request.basic_auth(&known.user, Some(&known.password));
        }
        let response = request.send().await.map_err(|e| unreachable(&url, &e))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(unauthenticated(registry, known.map(|known| known.origin.as_str())));
            }
            status => {
                return Err(failed(format!("{} answers {status} where a token is asked for", place(&url))));
            }
        }
        let most = RegistryRules::TOKEN;
        let bytes = body(response, most).await.map_err(|e| unreachable(&url, &e))?;
        let bytes = bytes.ok_or_else(|| failed(format!("{} answers more than {most}", place(&url))))?;
        let answer = serde_json::from_slice::<Token>(&bytes).ok();
        let token = answer.and_then(|answer| answer.token.or(answer.access_token)).filter(|t| !t.is_empty());
        token.ok_or_else(|| failed(format!("{} answers no token", place(&url))))
    }
}

fn basic(known: &Credentials) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", known.user, known.password)))
}

fn follow(attempt: Attempt<'_>, plain: Plain) -> reqwest::redirect::Action {
    if attempt.previous().len() > RegistryRules::REDIRECTS {
        return attempt.error(format!("it redirects more than {} times", RegistryRules::REDIRECTS));
    }
    if !plain.allows(attempt.url()) {
        let to = place(attempt.url());
        return attempt.error(format!("it redirects to what is not under HTTPS: {to}"));
    }
    attempt.follow()
}

/// The body; none where it is larger than `most`.
async fn body(response: Response, most: ByteSize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut parts = response.bytes_stream();
    while let Some(part) = parts.next().await {
        let part = part?;
        if bytes.len() + part.len() > most.as_usize() {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Some(bytes))
}

/// A URL without what may be secret in it: signed addresses of storage have it in their query.
fn place(url: &Url) -> String {
    short(&format!("{}{}", url.origin().ascii_serialization(), url.path()))
}

fn unreachable(url: &Url, error: &reqwest::Error) -> Failure {
    // The last cause says most; the first ones repeat the address, with its query.
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let reason = match error.source() {
        Some(_) => cause.to_string(),
        None if error.is_timeout() => "it takes too long".to_owned(),
        None => "the answer is no HTTP".to_owned(),
    };
    let text = format!("{}: {reason}", place(url));
    if error.is_redirect() {
        return failed(text);
    }
    let advice = if url.scheme() == "https" {
        "check the name, and that it speaks HTTPS with a certificate that this machine trusts"
    } else {
        "check that a registry listens there, and whether it speaks HTTPS (--https)"
    };
    Failure::unreachable("registry_unreachable", format!("{text}; {advice}"))
}

fn unauthenticated(registry: &str, origin: Option<&str>) -> Failure {
    let text = match origin {
        None => format!(
            "{registry} wants to know who asks: set {USER} and {PASSWORD}, or log in with `docker login` or `oras login`"
        ),
        Some(origin) => format!(
            "{registry} does not give this to who {origin} says: check user, password and their rights"
        ),
    };
    Failure::refused("registry_unauthenticated", text)
}

fn other_bytes(what: &str, wanted: Digest, got: Digest) -> Failure {
    Failure::refused(
        "registry_digest",
        format!("{what} that the registry sends is sha256:{got}, and not sha256:{wanted}: nothing was added"),
    )
}
