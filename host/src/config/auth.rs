//! Who may call: static bearer tokens, and access tokens of an OAuth issuer.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::{ByteSize, Millis};

/// How callers are authenticated. With neither tokens nor an issuer nobody is, and only loopback is listened on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct AuthConfig {
    /// File of static tokens, as `layby token new` writes it; empty for none. It is read again when it changes.
    pub tokens_file: PathBuf,
    /// More static tokens, each as `NAME:SHA256`: the name of the principal, and the hash of the token in hex.
    pub tokens: Vec<String>,
    /// An issuer whose access tokens are taken.
    pub oauth: OauthConfig,
    /// What each scope opens: patterns of tools, `prompt:` and `resource:`; empty for everything to everybody.
    pub scopes: BTreeMap<String, Vec<String>>,
}

/// An OAuth 2.1 authorization server, and this server as its resource (MCP 2026-07-28, authorization).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct OauthConfig {
    /// The issuer, exactly as tokens name it in `iss`; empty for none.
    pub issuer: String,
    /// This server's public URL, which tokens must name in `aud`, such as `https://tools.example.com/mcp`.
    pub audience: String,
    /// Where the issuer's keys are; empty for what its metadata says.
    pub jwks: String,
    /// Scopes that every request needs.
    pub scopes: Vec<String>,
}

impl AuthConfig {
    /// Largest file of tokens: some thousands.
    pub const FILE: ByteSize = ByteSize::mib(1);
    /// Longest credential that is looked at: issuers' tokens with many claims have some KiB.
    pub const CREDENTIAL: usize = 16 << 10;
    /// How often the file of tokens is looked at while requests come.
    pub const LOOK: Millis = Millis::from_secs(1);
    /// Longest name of a token: it stands in every row of its tasks.
    pub const NAME: usize = 64;

    /// True where callers must say who they are.
    pub fn is_on(&self) -> bool {
        !self.tokens_file.as_os_str().is_empty() || !self.tokens.is_empty() || self.oauth.is_on()
    }
}

impl OauthConfig {
    /// Largest document that is read of an issuer: metadata have some KiB, key sets less.
    pub const DOCUMENT: ByteSize = ByteSize::kib(256);
    /// How long an issuer may take for one.
    pub const FETCH: Millis = Millis::from_secs(5);
    /// How old keys may be before they are asked for again: a key that was withdrawn counts for that long.
    pub const REFRESH: Millis = Millis::from_secs(600);
    /// How long keys are used while their issuer does not answer: a day to mend it.
    pub const STALE: Millis = Millis::from_secs(24 * 3600);
    /// Between two requests for keys: anybody can send tokens that name keys which do not exist.
    pub const AGAIN: Millis = Millis::from_secs(5);
    /// By how much the clocks of issuer and host may differ.
    pub const LEEWAY: Millis = Millis::from_secs(30);
    /// Most keys of a set that are used.
    pub const KEYS: usize = 64;
    /// Longest subject (OpenID Connect Core 1.0, 2, has the same bound).
    pub const SUBJECT: usize = 255;

    /// True where an issuer is configured.
    pub const fn is_on(&self) -> bool {
        !self.issuer.is_empty()
    }
}
