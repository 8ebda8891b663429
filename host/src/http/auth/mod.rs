//! Who is calling: a loopback peer where nobody has to say it, else the bearer of a static token or of an issuer's
//! (MCP 2026-07-28, authorization; RFC 6750).

mod crypto;
mod keys;
mod oauth;
mod tokens;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};
use rmcp::model::RequestId;
use serde_json::{Value, json};

use self::{
    oauth::{Bearer, Oauth, Refused},
    tokens::{Found, Tokens},
};
use super::reply;
use crate::{
    base::{Clock, Fault, Principal},
    config::AuthConfig,
    mcp::access::{Access, Kind, opened, refused},
};

/// Where a client finds the resource's metadata (RFC 9728, 3.1).
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Headers by which a proxy says that the peer is not the caller.
const FORWARDING: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// How callers are told apart.
pub struct Auth {
    on: bool,
    clock: Arc<dyn Clock>,
    tokens: Tokens,
    oauth: Option<Oauth>,
    /// What each scope opens; empty where all is open to all.
    scopes: BTreeMap<String, Vec<String>>,
    /// Scopes that every access token of the issuer needs.
    required: Vec<String>,
    /// The metadata of this server as a resource, and where they are.
    resource: Option<(Value, String)>,
}

impl Auth {
    /// Reads tokens; keys are fetched when they are needed.
    ///
    /// # Errors
    /// The file of tokens cannot be read, or is none.
    pub fn open(config: &AuthConfig, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let oauth = &config.oauth;
        let mut supported: BTreeSet<&str> = config.scopes.keys().map(String::as_str).collect();
        supported.extend(oauth.scopes.iter().map(String::as_str));
        let resource = oauth.is_on().then(|| {
            let mut metadata = json!({
                "resource": oauth.audience,
                "authorization_servers": [oauth.issuer],
                "bearer_methods_supported": ["header"],
                "resource_name": "Layby",
            });
            if !supported.is_empty() {
                metadata["scopes_supported"] = json!(supported);
            }
            (metadata, metadata_url(&oauth.audience))
        });
        Ok(Self {
            on: config.is_on(),
            clock,
            tokens: Tokens::open(config)?,
            oauth: oauth.is_on().then(|| Oauth::open(oauth)).transpose()?,
            scopes: config.scopes.clone(),
            required: oauth.scopes.clone(),
            resource,
        })
    }

    /// Who sends this request, and what is open to them; the refusal where nobody who may.
    pub(super) async fn admit(
        &self,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> Result<Access, Box<Response<Body>>> {
        if !self.on {
            return Ok(Access::all(unproven(headers, peer)));
        }
        let Some(token) = bearer(headers)? else {
            return Err(Box::new(self.challenge(None)));
        };
        match self.tokens.find(token, self.clock.now()) {
            Found::Known(entry) => {
                let scopes = entry.scopes.iter().map(String::as_str);
                return Ok(Access::proven(Principal::token(&entry.name), self.opens(scopes)));
            }
            Found::Expired => return Err(Box::new(self.challenge(Some("it has expired")))),
            Found::Unknown => {}
        }
        let Some(oauth) = &self.oauth else { return Err(Box::new(self.challenge(Some("it is not known")))) };
        match oauth.check(token).await {
            Ok(Bearer { principal, scopes }) => {
                if !self.required.iter().all(|scope| scopes.contains(scope)) {
                    return Err(Box::new(self.insufficient(None, &self.required)));
                }
                Ok(Access::proven(principal, self.opens(scopes.iter().map(String::as_str))))
            }
            Err(Refused::Invalid(why)) => Err(Box::new(self.challenge(Some(why)))),
            Err(Refused::Unavailable) => Err(Box::new(unavailable())),
        }
    }

    /// What these scopes open together; none where scopes limit nothing.
    fn opens<'a>(&self, scopes: impl Iterator<Item = &'a str>) -> Option<Arc<[String]>> {
        if self.scopes.is_empty() {
            return None;
        }
        Some(scopes.filter_map(|scope| self.scopes.get(scope)).flatten().cloned().collect())
    }

    /// The refusal where `access` does not open all that is `wanted`; it names a scope for each.
    pub(super) fn check(
        &self,
        access: &Access,
        id: Option<&RequestId>,
        wanted: &[(Kind, String)],
    ) -> Result<(), Box<Response<Body>>> {
        let closed: Vec<_> = wanted.iter().filter(|(kind, name)| !access.admits(*kind, name)).collect();
        if closed.is_empty() {
            return Ok(());
        }
        let opener = |(kind, name): &(Kind, String)| {
            self.scopes
                .iter()
                .find(|(_, opens)| opens.iter().any(|p| opened(p, *kind, name)))
                .map(|(s, _)| s.clone())
        };
        let mut needed: BTreeSet<String> = closed.into_iter().filter_map(opener).collect();
        needed.extend(self.required.iter().cloned());
        Err(Box::new(self.insufficient(id, &needed.into_iter().collect::<Vec<_>>())))
    }

    /// The metadata of this server as a resource, where `path` is theirs.
    pub(super) fn metadata(&self, path: &str) -> Option<Response<Body>> {
        let rest = path.strip_prefix(WELL_KNOWN)?;
        let (metadata, url) = self.resource.as_ref()?;
        let own = url.split_once(WELL_KNOWN).map_or("", |(_, rest)| rest);
        if !rest.is_empty() && rest != own {
            return None;
        }
        let mut response = Response::new(Body::from(metadata.to_string()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
        Some(response)
    }

    /// 401: nobody said who calls, or `wrong` with what they said.
    fn challenge(&self, wrong: Option<&str>) -> Response<Body> {
        let text = match wrong {
            Some(why) => format!("The bearer token does not count: {why}."),
            None => {
                "Send Authorization: Bearer TOKEN. The operator has the token, or the issuer that is named."
                    .into()
            }
        };
        let fault = Fault::new(-32600, "unauthenticated", text);
        let error = wrong.map(|why| ("invalid_token", why));
        self.refuse(StatusCode::UNAUTHORIZED, None, fault, error, &self.required)
    }

    /// 403: the token holds, and does not open this.
    fn insufficient(&self, id: Option<&RequestId>, scopes: &[String]) -> Response<Body> {
        let error = Some(("insufficient_scope", "the token's scopes do not open this"));
        let fault = refused().with("scope", json!(scopes.join(" ")));
        self.refuse(StatusCode::FORBIDDEN, id, fault, error, scopes)
    }

    /// A refusal with its `WWW-Authenticate` (RFC 6750, 3; RFC 9728, 5.1).
    fn refuse(
        &self,
        status: StatusCode,
        id: Option<&RequestId>,
        fault: Fault,
        error: Option<(&str, &str)>,
        scopes: &[String],
    ) -> Response<Body> {
        let mut parts = vec!["realm=\"layby\"".to_owned()];
        if let Some((code, why)) = error {
            parts.push(format!("error=\"{code}\""));
            parts.push(format!("error_description=\"{why}\""));
        }
        if let Some((_, url)) = &self.resource {
            parts.push(format!("resource_metadata=\"{url}\""));
        }
        if !scopes.is_empty() {
            parts.push(format!("scope=\"{}\"", scopes.join(" ")));
        }
        let mut response = reply::refuse(status, id, fault);
        // Scopes and URLs were checked to have only characters that a header has.
        if let Ok(value) = HeaderValue::from_str(&format!("Bearer {}", parts.join(", "))) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
        response
    }
}

/// Who calls where nobody has to say it: `local` for a loopback peer without a forwarding header.
fn unproven(headers: &HeaderMap, peer: SocketAddr) -> Principal {
    let forwarded = FORWARDING.iter().any(|name| headers.contains_key(*name));
    if peer.ip().to_canonical().is_loopback() && !forwarded {
        Principal::local()
    } else {
        Principal::anonymous()
    }
}

/// The bearer token, if there is any. The scheme's name has no case (RFC 9110, 11.1).
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Box<Response<Body>>> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    let bad = |text: &str| {
        let fault = Fault::new(-32600, "authorization_invalid", text);
        Box::new(reply::refuse(StatusCode::BAD_REQUEST, None, fault))
    };
    if lines.next().is_some() {
        return Err(bad("The request has two Authorization headers: send one."));
    }
    let line = line.to_str().map_err(|_| bad("The Authorization header is not plain text."))?;
    let Some((scheme, token)) = line.split_once(' ') else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(None);
    }
    let token = token.trim();
    if token.len() > AuthConfig::CREDENTIAL {
        let most = AuthConfig::CREDENTIAL;
        return Err(bad(&format!("A bearer token has at most {most} bytes.")));
    }
    Ok(Some(token))
}

fn unavailable() -> Response<Body> {
    let text =
        "The issuer of access tokens cannot be reached, so that yours cannot be checked. Try again later.";
    let mut response =
        reply::refuse(StatusCode::SERVICE_UNAVAILABLE, None, Fault::internal("issuer_unreachable", text));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

/// Where the metadata of the resource `url` are: the well-known part goes between host and path.
fn metadata_url(url: &str) -> String {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url[host..].find('/').map_or(url.len(), |at| host + at);
    format!("{}{WELL_KNOWN}{}", &url[..path], url[path..].trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_forwarded_request_is_not_local() {
        let peer = SocketAddr::from(([127, 0, 0, 1], 5000));
        let mut headers = HeaderMap::new();
        assert_eq!(unproven(&headers, peer), Principal::local());
        headers.insert("x-forwarded-for", HeaderValue::from_static("10.0.0.1"));
        assert_eq!(unproven(&headers, peer), Principal::anonymous());
    }

    #[test]
    fn metadata_stand_between_host_and_path() {
        for (resource, url) in [
            ("https://a.example/mcp", "https://a.example/.well-known/oauth-protected-resource/mcp"),
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
            ("https://a.example:8443/", "https://a.example:8443/.well-known/oauth-protected-resource"),
        ] {
            assert_eq!(metadata_url(resource), url);
        }
    }

    #[test]
    fn one_bearer_token_is_read() {
        let read = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(line));
            }
            bearer(&headers).map(|token| token.map(str::to_owned)).map_err(|r| r.status())
        };
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&["Bearer abc"]).unwrap().as_deref(), Some("abc"));
        assert_eq!(read(&["bEARER  abc "]).unwrap().as_deref(), Some("abc"));
        assert_eq!(read(&["Basic abc"]).unwrap(), None);
        assert_eq!(read(&["Bearer"]).unwrap(), None);
        assert_eq!(read(&["Bearer a", "Bearer b"]).unwrap_err(), StatusCode::BAD_REQUEST);
    }
}
