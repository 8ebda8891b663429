//! Access tokens of an OAuth issuer (MCP 2026-07-28, authorization; RFC 9068): signature, issuer, audience, time.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use jsonwebtoken::{DecodingKey, Header, Validation, decode, decode_header, errors::ErrorKind};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::{
    crypto,
    keys::{Keys, Source},
};
use crate::{base::Principal, config::OauthConfig};

/// One issuer.
pub(super) struct Oauth {
    config: OauthConfig,
    source: Source,
    keys: RwLock<Arc<Keys>>,
    /// When keys were asked for last. Held while they are fetched, so that only one request does.
    asked: Mutex<Option<Instant>>,
}

/// A token that holds.
#[derive(Debug)]
pub(super) struct Bearer {
    /// `oauth:ISS|SUB`.
    pub(super) principal: Principal,
    pub(super) scopes: BTreeSet<String>,
}

/// Why a token does not.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// What is wrong with it, for its bearer.
    Invalid(&'static str),
    /// The issuer's keys are not to be had now.
    Unavailable,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    client_id: Option<String>,
    azp: Option<String>,
    scope: Option<Words>,
    /// As some issuers name it.
    scp: Option<Words>,
}

/// Words in one text, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Text(String),
    List(Vec<String>),
}

impl Words {
    fn each(self) -> Vec<String> {
        match self {
            Self::Text(text) => text.split_ascii_whitespace().map(str::to_owned).collect(),
            Self::List(list) => list,
        }
    }
}

impl Oauth {
    /// # Errors
    /// There is no HTTP client to be had.
    pub(super) fn open(config: &OauthConfig) -> anyhow::Result<Self> {
        crypto::install();
        let source = Source::new(config)?;
        Ok(Self { config: config.clone(), source, keys: RwLock::default(), asked: Mutex::default() })
    }

    /// Who bears `token`, and what it opens.
    ///
    /// # Errors
    /// It does not hold, or cannot be checked now.
    pub(super) async fn check(&self, token: &str) -> Result<Bearer, Refused> {
        let header = decode_header(token).map_err(|_| Refused::Invalid("it is no signed token"))?;
        kind(&header)?;
        let mut keys = self.keys(false).await?;
        if keys.fitting(&header).next().is_none() {
            keys = self.keys(true).await?;
        }
        let mut why = Refused::Invalid("no key of the issuer signed it");
        for key in keys.fitting(&header) {
            match self.with(token, &header, key) {
                Ok(bearer) => return Ok(bearer),
                Err(refused) => why = refused,
            }
        }
        Err(why)
    }

    fn with(&self, token: &str, header: &Header, key: &DecodingKey) -> Result<Bearer, Refused> {
        let mut validation = Validation::new(header.alg);
        validation.leeway = OauthConfig::LEEWAY.0 / 1000;
        validation.validate_nbf = true;
        validation.set_audience(&[&self.config.audience]);
        validation.set_issuer(&[&self.config.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let decoded = decode::<Claims>(token, key, &validation).map_err(|e| {
            Refused::Invalid(match e.kind() {
                ErrorKind::ExpiredSignature => "it has expired",
                ErrorKind::ImmatureSignature => "its time has not come",
                ErrorKind::InvalidAudience => "it is for another server (aud)",
                ErrorKind::InvalidIssuer => "another issuer made it (iss)",
                ErrorKind::MissingRequiredClaim(_) => "it lacks exp, iss or aud",
                ErrorKind::InvalidSignature => "no key of the issuer signed it",
                _ => "it cannot be read",
            })
        })?;
        let Claims { sub, client_id, azp, scope, scp } = decoded.claims;
        let subject = sub.or(client_id).or(azp).filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(Refused::Invalid("it names neither subject nor client"))?;
        if subject.len() > OauthConfig::SUBJECT || subject.chars().any(char::is_control) {
            return Err(Refused::Invalid("its subject is too long, or has control characters"));
        }
        let scopes = [scope, scp].into_iter().flatten().flat_map(Words::each).collect();
        Ok(Bearer { principal: Principal::oauth(&self.config.issuer, &subject), scopes })
    }

    /// The issuer's keys. They are fetched where there are none or old ones, and where `more` are wanted: a token may
    /// name one that is new.
    async fn keys(&self, more: bool) -> Result<Arc<Keys>, Refused> {
        let known = self.known();
        if known.age() < OauthConfig::REFRESH.duration() && !more {
            return Ok(known);
        }
        let usable = known.age() < OauthConfig::STALE.duration();
        let mut asked = if usable && !more {
            // Whoever fetches them does it for all.
            match self.asked.try_lock() {
                Ok(asked) => asked,
                Err(_) => return Ok(known),
            }
        } else {
            self.asked.lock().await
        };
        let now = self.known();
        let changed = !Arc::ptr_eq(&now, &known);
        let soon = asked.is_some_and(|at| at.elapsed() < OauthConfig::AGAIN.duration());
        if !changed && !soon {
            *asked = Some(Instant::now());
            match self.source.fetch().await {
                Ok(keys) => *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys),
                Err(e) => {
                    tracing::warn!(issuer = self.config.issuer, "the issuer's keys cannot be had: {e:#}")
                }
            }
        }
        let now = self.known();
        if now.age() < OauthConfig::STALE.duration() { Ok(now) } else { Err(Refused::Unavailable) }
    }

    fn known(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Only access tokens, and only what needs nothing that is not understood (RFC 7515, 4.1.11).
fn kind(header: &Header) -> Result<(), Refused> {
    let known = header.typ.as_deref().is_none_or(|typ| {
        let typ = typ.strip_prefix("application/").unwrap_or(typ);
        typ.eq_ignore_ascii_case("at+jwt") || typ.eq_ignore_ascii_case("jwt")
    });
    if !known {
        return Err(Refused::Invalid("it is a token of another kind (typ)"));
    }
    if header.crit.is_some() {
        return Err(Refused::Invalid("it demands what this server does not know (crit)"));
    }
    Ok(())
}
