//! A policy in its row: sealed where it has values of the environment or of the configuration. Pure.

use crate::{
    config::Policy,
    store::{Closed, PluginRow, Sealed, Vault},
};

/// What a sealed one begins with. No TOML does: a `:` may not follow a bare key.
const MARK: &str = "sealed:";

/// `text`, the policy of the plugin `name`, as its row keeps it; `policy` is what it says. The same each time.
pub(super) fn kept(vault: &Vault, name: &str, text: &str, policy: &Policy) -> String {
    let grants = &policy.grants;
    if grants.config.is_empty() && grants.env.values().all(|value| value.is_secret()) {
        return text.to_owned();
    }
    // By the name alone: the row outlives its component.
    format!("{MARK}{}", vault.seal(Sealed::Policy, name.as_bytes(), text.as_bytes()))
}

/// The text of a row's policy, also of one that was written before any was sealed.
///
/// # Errors
/// It was sealed under another key, or is damaged.
pub(super) fn text(vault: &Vault, row: &PluginRow) -> Result<String, Closed> {
    let Some(sealed) = row.policy.strip_prefix(MARK) else { return Ok(row.policy.clone()) };
    let text = vault.unseal(Sealed::Policy, row.name.as_bytes(), sealed)?;
    String::from_utf8(text).map_err(|_| Closed::Damaged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;
    use crate::config::{Config, load_policy};

    fn as_kept(text: &str) -> PluginRow {
        let policy = load_policy(text, Path::new("a.toml"), Path::new("/"), &Config::default()).unwrap();
        let policy = kept(&Vault::of([1; 32], []), "a", text, &policy);
        PluginRow { name: "a".into(), policy, ..PluginRow::default() }
    }

    #[test]
    fn values_are_sealed_and_names_are_not() {
        let vault = Vault::of([1; 32], []);
        for open in ["", "# a", "[grants]\nenv = { A = { secret = \"B\" } }\nconfig = {}"] {
            let row = as_kept(open);
            assert_eq!((row.policy.as_str(), text(&vault, &row)), (open, Ok(open.to_owned())));
        }
        for secret in ["[grants]\nenv = { A = \"b\" }", "[grants]\nconfig = { a = \"\" }"] {
            let row = as_kept(secret);
            assert!(row.policy.starts_with("sealed:") && !row.policy.contains('='), "{}", row.policy);
            assert_eq!(text(&vault, &row).unwrap(), secret);
            assert!(matches!(text(&Vault::of([2; 32], []), &row), Err(Closed::OtherKey { .. })));
            assert_eq!(text(&vault, &PluginRow { name: "b".into(), ..row.clone() }), Err(Closed::Damaged));
        }
        // Rows of before.
        let plain = "[grants]\nenv = { A = \"b\" }";
        let row = PluginRow { policy: plain.into(), ..as_kept(plain) };
        assert_eq!(text(&vault, &row).unwrap(), plain);
        assert!(load_policy(MARK, Path::new("a.toml"), Path::new("/"), &Config::default()).is_err());
    }
}
