//! Secrets of the operator's, in headers of requests. Grant: `env`, with `{ secret = … }` or `{ secret-file = … }`.
//! Class: none of its own, it is part of a request by HTTP. Records: nothing. The journal, the marks and the log see what
//! the guest sees, a placeholder; so a value may change at any time, and tasks that wait go on with the new one.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue};

use crate::{
    base::{ByteSize, quoted, quoted_key, read_file},
    config::{EnvValue, Limits},
};

/// How a placeholder begins; it goes on with the variable's name.
const BEGIN: &str = "{layby-secret:";

/// What the guest sees of the secret variable `name`: the same for every run, and nobody else's text.
pub(super) fn placeholder(name: &str) -> String {
    format!("{BEGIN}{name}}}")
}

/// The first name in a placeholder of a variable that `env` does not have.
fn unknown(headers: &HeaderMap, env: &BTreeMap<String, EnvValue>) -> Option<String> {
    let begin = BEGIN.as_bytes();
    headers.values().find_map(|value| {
        let mut rest = value.as_bytes();
        while let Some(at) = find(rest, begin) {
            rest = &rest[at + begin.len()..];
            let end = rest.iter().position(|b| *b == b'}')?;
            let name = std::str::from_utf8(&rest[..end]).ok().filter(|name| !env.contains_key(*name));
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                return Some(name.to_owned());
            }
        }
        None
    })
}

/// Variables by their names.
type Env = BTreeMap<String, EnvValue>;

/// Puts the values of all secret variables of `env` in the place of their placeholders, where they are granted `now` too.
/// Reads them anew each time. All values may have `most` bytes then.
///
/// # Errors
/// One that is wanted has no value, or none that fits into a header, or is not granted: which and why, for the operator.
pub(super) async fn reveal(
    headers: &mut HeaderMap,
    env: &Env,
    now: &Env,
    most: ByteSize,
) -> Result<(), String> {
    if let Some(name) = unknown(headers, env) {
        let (key, secret) = (quoted_key(&name), quoted(&name));
        return Err(format!(
            "the secret variable {name:?} is not granted; to allow it, add {key} = {{ secret = {secret} }} to grants.env of this plugin's policy"
        ));
    }
    let mut room = most.as_usize();
    for (name, kind) in env {
        let mark = placeholder(name);
        let wanted = |value: &HeaderValue| find(value.as_bytes(), mark.as_bytes()).is_some();
        if matches!(kind, EnvValue::Plain(_)) || !headers.values().any(wanted) {
            continue;
        }
        let no = |why: String| format!("the secret variable {name} has no value: {why}");
        if now.get(name) != Some(kind) {
            return Err(no("the plugin's policy does not grant it any more".to_owned()));
        }
        let secret = value(kind).await.map_err(no)?;
        for value in headers.values_mut() {
            if wanted(value) {
                let whole = replaced(value.as_bytes(), mark.as_bytes(), &secret, &mut room)
                    .ok_or_else(|| no(format!("with it the headers would have more than {most}")))?;
                *value = HeaderValue::from_bytes(&whole)
                    .map_err(|_| no("it has a character that no header may have".to_owned()))?;
                value.set_sensitive(true);
            }
        }
    }
    Ok(())
}

/// The value of a secret now. Errors never have any of it.
async fn value(kind: &EnvValue) -> Result<Vec<u8>, String> {
    match kind {
        EnvValue::Plain(_) => Err("it is none".to_owned()),
        EnvValue::Secret { secret } => {
            use std::os::unix::ffi::OsStringExt;
            let value = std::env::var_os(secret);
            value
                .filter(|value| !value.is_empty())
                .map(OsStringExt::into_vec)
                .ok_or_else(|| format!("the host's environment has no {secret}"))
        }
        EnvValue::SecretFile { secret_file } => {
            let path = secret_file.clone();
            let read = tokio::task::spawn_blocking(move || read_file(&path, Limits::SECRET_SIZE)).await;
            let read = read.map_err(|e| e.to_string()).and_then(|read| read.map_err(|e| e.to_string()));
            let mut value = read.map_err(|why| format!("{}: {why}", secret_file.display()))?;
            // As editors and `echo` leave it.
            for end in [b'\n', b'\r'] {
                if value.last() == Some(&end) {
                    value.pop();
                }
            }
            if value.is_empty() { Err(format!("{} is empty", secret_file.display())) } else { Ok(value) }
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// `text` with `value` wherever it has `mark`; none where that takes more than there is `room`.
fn replaced(mut text: &[u8], mark: &[u8], value: &[u8], room: &mut usize) -> Option<Vec<u8>> {
    let mut whole = Vec::with_capacity(text.len() + value.len());
    while let Some(at) = find(text, mark) {
        *room = room.checked_sub(value.len())?;
        whole.extend_from_slice(&text[..at]);
        whole.extend_from_slice(value);
        text = &text[at + mark.len()..];
    }
    whole.extend_from_slice(text);
    Some(whole)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;

    fn env(path: &Path) -> BTreeMap<String, EnvValue> {
        let file = |name: &str| EnvValue::SecretFile { secret_file: path.join(name) };
        [
            ("PLAIN".to_owned(), EnvValue::Plain("plain".into())),
            ("TOKEN".to_owned(), file("token")),
            ("OTHER".to_owned(), file("other")),
            ("MOVED".to_owned(), file("other")),
            ("ABSENT".to_owned(), EnvValue::Secret { secret: "LAYBY_NO_SUCH_VARIABLE".into() }),
            ("GONE".to_owned(), file("gone")),
        ]
        .into()
    }

    async fn sent(path: &Path, text: &str) -> Result<HeaderValue, String> {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_str(text).unwrap());
        let mut now = env(path);
        now.remove("GONE");
        now.insert("MOVED".to_owned(), EnvValue::Secret { secret: "HOME".into() });
        reveal(&mut headers, &env(path), &now, ByteSize(100)).await?;
        Ok(headers["authorization"].clone())
    }

    #[tokio::test]
    async fn placeholders_give_way_to_values_as_they_are_then() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "{layby-secret:TOKEN}x\r\n").unwrap();
        std::fs::write(dir.path().join("other"), "o").unwrap();
        let text =
            "Bearer {layby-secret:TOKEN}, {layby-secret:OTHER}{layby-secret:OTHER} {layby-secret:PLAIN}";
        let value = sent(dir.path(), text).await.unwrap();
        assert_eq!(value, "Bearer {layby-secret:TOKEN}x, oo {layby-secret:PLAIN}");
        assert!(value.is_sensitive());
        assert_eq!(sent(dir.path(), "none").await.unwrap(), "none");
        std::fs::write(dir.path().join("token"), "new").unwrap();
        assert_eq!(sent(dir.path(), "{layby-secret:TOKEN}").await.unwrap(), "new");
    }

    #[tokio::test]
    async fn a_value_that_cannot_be_sent_is_named_and_never_told() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "hunter\n2").unwrap();
        let refused = sent(dir.path(), "{layby-secret:TOKEN}").await.unwrap_err();
        assert!(refused.contains("TOKEN") && !refused.contains("hunter"), "{refused}");
        std::fs::write(dir.path().join("token"), "x".repeat(60)).unwrap();
        let refused = sent(dir.path(), &placeholder("TOKEN").repeat(2)).await.unwrap_err();
        assert!(refused.contains("more than 100B"), "{refused}");
        std::fs::write(dir.path().join("token"), "\n").unwrap();
        for (name, why) in [
            ("NEW", "add NEW = { secret = \"NEW\" } to grants.env"),
            ("a b", "add \"a b\" = { secret = \"a b\" } to"),
            ("TOKEN", "is empty"),
            ("OTHER", "No such file"),
            ("ABSENT", "has no LAYBY_NO_SUCH"),
            ("GONE", "not grant it"),
            ("MOVED", "not grant it"),
        ] {
            let refused = sent(dir.path(), &placeholder(name)).await.unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
