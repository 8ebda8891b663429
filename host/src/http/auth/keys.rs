//! The public keys of an issuer, and where they come from (RFC 8414, RFC 7517).

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures::StreamExt as _;
use jsonwebtoken::{
    Algorithm, DecodingKey, Header,
    jwk::{Jwk, KeyAlgorithm, PublicKeyUse},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use crate::{base::choose_tls, config::OauthConfig};

/// Keys as they were fetched.
#[derive(Default)]
pub(super) struct Keys {
    at: Option<Instant>,
    all: Vec<Key>,
}

struct Key {
    id: Option<String>,
    /// The one algorithm that it is for, where it says so.
    algorithm: Option<KeyAlgorithm>,
    key: DecodingKey,
}

impl Keys {
    /// How long they are known; for ever where there are none.
    pub(super) fn age(&self) -> Duration {
        self.at.map_or(Duration::MAX, |at| at.elapsed())
    }

    /// Those that may have signed a token with this header.
    pub(super) fn fitting(&self, header: &Header) -> impl Iterator<Item = &DecodingKey> {
        let (id, algorithm) = (header.kid.clone(), header.alg);
        let fits = move |key: &&Key| {
            let named = id.is_none() || key.id == id;
            let meant = key.algorithm.is_none_or(|only| same(only, algorithm));
            named && meant && key.key.family().algorithms().contains(&algorithm)
        };
        self.all.iter().filter(fits).map(|key| &key.key)
    }

    /// Keys that cannot be used are left out: sets have keys for other purposes, too.
    fn of(set: Set) -> Self {
        let usable = |value: Value| {
            let jwk: Jwk = serde_json::from_value(value).ok()?;
            let common = &jwk.common;
            if common.public_key_use.as_ref().is_some_and(|use_| *use_ != PublicKeyUse::Signature) {
                return None;
            }
            let key = DecodingKey::from_jwk(&jwk).ok()?;
            Some(Key { id: common.key_id.clone(), algorithm: common.key_algorithm, key })
        };
        let all = set.keys.into_iter().filter_map(usable).take(OauthConfig::KEYS).collect();
        Self { at: Some(Instant::now()), all }
    }
}

fn same(only: KeyAlgorithm, algorithm: Algorithm) -> bool {
    only.to_string().parse::<Algorithm>().is_ok_and(|only| only == algorithm)
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// Where the keys are fetched.
pub(super) struct Source {
    http: reqwest::Client,
    issuer: String,
    jwks: Option<Url>,
}

impl Source {
    pub(super) fn new(config: &OauthConfig) -> anyhow::Result<Self> {
        choose_tls();
        let http = reqwest::Client::builder()
            .timeout(OauthConfig::FETCH.duration())
            // What an issuer says stands where it says it.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .context("no HTTP client")?;
        let jwks = (!config.jwks.is_empty()).then(|| Url::parse(&config.jwks)).transpose()?;
        Ok(Self { http, issuer: config.issuer.clone(), jwks })
    }

    /// Fetches the keys.
    pub(super) async fn fetch(&self) -> anyhow::Result<Keys> {
        let jwks = match &self.jwks {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let set: Set = self.get(jwks.clone()).await.with_context(|| format!("keys from {jwks}"))?;
        let keys = Keys::of(set);
        ensure!(!keys.all.is_empty(), "{jwks} has no key that can be used");
        tracing::info!(issuer = self.issuer, keys = keys.all.len(), "the issuer's keys were read");
        Ok(keys)
    }

    /// Where the keys are, by the issuer's metadata.
    async fn discover(&self) -> anyhow::Result<Url> {
        let mut tried = Vec::new();
        for url in metadata_urls(&self.issuer)? {
            match self.get::<Metadata>(url.clone()).await {
                // RFC 8414, 3.3: else anybody's document could speak for the issuer.
                Ok(found) if found.issuer != self.issuer => {
                    bail!("{url} is the metadata of {:?}, and not of {:?}", found.issuer, self.issuer)
                }
                Ok(found) => {
                    let jwks = Url::parse(&found.jwks_uri).with_context(|| format!("jwks_uri of {url}"))?;
                    let plain = url.scheme() == "http";
                    ensure!(
                        jwks.scheme() == "https" || plain,
                        "{url} names keys that are not under https: {jwks}"
                    );
                    return Ok(jwks);
                }
                Err(e) => tried.push(format!("{url}: {e:#}")),
            }
        }
        bail!("no metadata: {}", tried.join("; "))
    }

    async fn get<T: DeserializeOwned>(&self, url: Url) -> anyhow::Result<T> {
        let response =
            self.http.get(url).header("accept", "application/json").send().await?.error_for_status()?;
        let most = OauthConfig::DOCUMENT;
        let mut body = Vec::new();
        let mut parts = response.bytes_stream();
        while let Some(part) = parts.next().await {
            body.extend_from_slice(&part?);
            ensure!(body.len() <= most.as_usize(), "it is larger than {most}");
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

/// Where the metadata of `issuer` may be, in the order of MCP 2026-07-28 (authorization server discovery).
fn metadata_urls(issuer: &str) -> anyhow::Result<Vec<Url>> {
    let base = Url::parse(issuer)?;
    let path = base.path().trim_end_matches('/').to_owned();
    let at = |path: String| {
        let mut url = base.clone();
        url.set_path(&path);
        url
    };
    let mut urls = vec![
        at(format!("/.well-known/oauth-authorization-server{path}")),
        at(format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        urls.push(at(format!("{path}/.well-known/openid-configuration")));
    }
    Ok(urls)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn metadata_is_looked_for_in_order() {
        let urls = |issuer| metadata_urls(issuer).unwrap().iter().map(Url::to_string).collect::<Vec<_>>();
        assert_eq!(
            urls("https://a.example"),
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            urls("https://a.example/t/1"),
            [
                "https://a.example/.well-known/oauth-authorization-server/t/1",
                "https://a.example/.well-known/openid-configuration/t/1",
                "https://a.example/t/1/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn a_set_may_hold_keys_that_are_not_ours() {
        let set = serde_json::json!({"keys": [
            {"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB", "use": "enc"},
            {"kty": "RSA", "kid": "b", "n": "AQAB", "e": "AQAB", "alg": "RS256"},
            {"kty": "unheard-of"}, 7,
            {"kty": "oct", "kid": "c", "k": "c2VjcmV0"},
        ]});
        let keys = Keys::of(serde_json::from_value(set).unwrap());
        let fitting = |algorithm, id: Option<&str>| {
            let mut header = Header::new(algorithm);
            header.kid = id.map(str::to_owned);
            keys.fitting(&header).count()
        };
        assert_eq!(fitting(Algorithm::RS256, None), 1);
        assert_eq!(fitting(Algorithm::RS256, Some("b")), 1);
        assert_eq!(fitting(Algorithm::RS256, Some("a")), 0, "a key for encryption");
        assert_eq!(fitting(Algorithm::PS256, Some("b")), 0, "it says which algorithm it is for");
        assert_eq!(fitting(Algorithm::ES256, None), 0);
    }
}
