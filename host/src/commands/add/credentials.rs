//! Who the operator is to a registry: from variables, or from where Docker's tools keep it (`docker login`, `oras login`).

use std::{
    env::{self, VarError},
    io,
    path::{Path, PathBuf},
};

use docker_credential::{CredentialRetrievalError, DockerCredential};

use crate::{base::read_file, commands::exit::Failure, config::RegistryRules};

/// The variables: both, or none.
pub(crate) const USER: &str = "LAYBY_REGISTRY_USER";
/// The password, or a token that is used in its place.
pub(crate) const PASSWORD: &str = "LAYBY_REGISTRY_PASSWORD";

/// A user's name and password. Never shown: no `Debug`.
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
    /// For people: where they come from.
    pub(super) origin: String,
}

fn wrong(text: impl Into<String>) -> Failure {
    Failure::usage("registry_credentials", text)
}

/// The credentials for `registry`, if there are any. May start a helper program that Docker's configuration names.
///
/// # Errors
/// There are some that cannot be read or used.
pub(super) fn find(registry: &str) -> Result<Option<Credentials>, Failure> {
    match (variable(USER)?, variable(PASSWORD)?) {
        (Some(user), Some(password)) if user.contains(':') => {
            drop(password);
            Err(wrong(format!("{USER} has a colon, which no user's name may have")))
        }
        (Some(user), Some(password)) => {
            Ok(Some(Credentials { user, password, origin: format!("{USER} and {PASSWORD}") }))
        }
        (None, None) => docker(registry),
        _ => Err(wrong(format!("only one of {USER} and {PASSWORD} is set: set both, or none"))),
    }
}

fn variable(name: &str) -> Result<Option<String>, Failure> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(wrong(format!("{name} is not UTF-8 text"))),
    }
}

/// The file of Docker's tools.
fn file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("DOCKER_CONFIG").or_else(|| set("HOME").map(|home| home.join(".docker")))?;
    Some(folder.join("config.json"))
}

fn docker(registry: &str) -> Result<Option<Credentials>, Failure> {
    let Some(path) = file() else { return Ok(None) };
    match read_file(&path, RegistryRules::CREDENTIALS) {
        Ok(bytes) => of(&bytes, registry, &path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(wrong(format!("{} cannot be read: {e}", path.display()))),
    }
}

/// What a file of Docker's has for `registry`.
fn of(bytes: &[u8], registry: &str, path: &Path) -> Result<Option<Credentials>, Failure> {
    use CredentialRetrievalError as Why;
    let at = path.display();
    match docker_credential::get_credential_from_reader(bytes, registry) {
        Ok(DockerCredential::UsernamePassword(user, password)) => {
            Ok(Some(Credentials { user, password, origin: at.to_string() }))
        }
        Ok(DockerCredential::IdentityToken(_)) => Err(wrong(format!(
            "{at} has an identity token for {registry}, which Layby cannot use: set {USER} and {PASSWORD}"
        ))),
        Err(Why::NoCredentialConfigured | Why::ConfigNotFound) => Ok(None),
        // What a helper has printed may be a secret.
        Err(Why::HelperFailure { helper, .. }) => {
            Err(wrong(format!("{helper}, which {at} names, gives no credentials for {registry}")))
        }
        Err(Why::HelperCommunicationError | Why::MalformedHelperResponse) => {
            Err(wrong(format!("the helper that {at} names for {registry} cannot be used")))
        }
        Err(e) => Err(wrong(format!("{at} cannot be used for {registry}: {e}"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use serde_json::json;

    use super::*;

    fn found(config: &str, registry: &str) -> Result<Option<(String, String)>, String> {
        let found = of(config.as_bytes(), registry, Path::new("config.json"));
        found.map(|all| all.map(|c| (c.user, c.password))).map_err(|e| e.to_string())
    }

    #[test]
    fn dockers_file_is_read_as_docker_writes_it() {
        let auth = |text: &str| json!({ "auth": BASE64_STANDARD.encode(text) });
        let config = json!({"auths": {"127.0.0.1:5000": auth("ada:pass:word"), "https://hub.example/v1/": auth("hub:x"),
            "token.example": {"identitytoken": "secret"}, "broken.example": {"auth": "secret!"}}})
        .to_string();
        let pair = |user: &str, password: &str| Ok(Some((user.to_owned(), password.to_owned())));
        assert_eq!(found(&config, "127.0.0.1:5000"), pair("ada", "pass:word"));
        assert_eq!(found(&config, "hub.example"), pair("hub", "x"));
        assert_eq!(found(&config, "127.0.0.1:5001"), Ok(None), "another registry on the machine");
        for (registry, why) in [("token.example", "identity token"), ("broken.example", "cannot be used")] {
            let said = found(&config, registry).unwrap_err();
            assert!(said.contains(why) && !said.contains("secret"), "{said}");
        }
        assert_eq!(found("{}", "x.example"), Ok(None));
        assert!(found("{", "x.example").unwrap_err().contains("cannot be used"));
        let helper = json!({"credHelpers": {"x.example": "layby-has-none"}}).to_string();
        assert!(found(&helper, "x.example").unwrap_err().contains("helper"));
    }
}
