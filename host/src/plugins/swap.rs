//! When a component gets the grants of its policy. Pure.

use crate::{base::Digest, config::Policy, store::PluginRow};

/// Whether `digest` may have what `policy` (of text `text`) grants, given what the name's row
/// says of its past. Grants were given to one component under one policy text; another component
/// gets them only where the operator did something after it was there: rewrote the policy, or
/// pinned the digest.
pub(super) fn gets_grants(
    row: Option<&PluginRow>,
    digest: Digest,
    text: &str,
    policy: &Policy,
    trust_replacements: bool,
) -> bool {
    let Some(row) = row else { return true };
    if trust_replacements || policy.sha256 == Some(digest) || row.policy != text {
        return true;
    }
    match row.granted {
        Some(granted) => granted == digest,
        // No component ever served under this name: this is its first.
        None => row.digest.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Digest = Digest([1; 32]);
    const B: Digest = Digest([2; 32]);

    /// A row of `serving`, whose grants went to `granted`, under the policy text "p".
    fn row(serving: Option<Digest>, granted: Option<Digest>) -> PluginRow {
        PluginRow { name: "n".into(), digest: serving, granted, policy: "p".into(), ..PluginRow::default() }
    }

    #[test]
    fn the_table() {
        let open = Policy::default();
        let pinned = Policy { sha256: Some(B), ..Policy::default() };
        for (what, row, digest, text, policy, trust, expected) in [
            ("a first component", None, A, "p", &open, false, true),
            ("a first one after refused ones", Some(row(None, None)), A, "p", &open, false, true),
            ("the same component", Some(row(Some(A), Some(A))), A, "p", &open, false, true),
            ("another, old policy", Some(row(Some(A), Some(A))), B, "p", &open, false, false),
            ("another, policy rewritten", Some(row(Some(A), Some(A))), B, "q", &open, false, true),
            ("another, pinned", Some(row(Some(A), Some(A))), B, "p", &pinned, false, true),
            ("another, trusted", Some(row(Some(A), Some(A))), B, "p", &open, true, true),
            ("the first one again", Some(row(Some(B), Some(A))), A, "p", &open, false, true),
            ("the ungranted one again", Some(row(Some(B), Some(A))), B, "p", &open, false, false),
            ("another after a removal", Some(row(None, Some(A))), B, "p", &open, false, false),
            ("the same after a removal", Some(row(None, Some(A))), A, "p", &open, false, true),
        ] {
            assert_eq!(gets_grants(row.as_ref(), digest, text, policy, trust), expected, "{what}");
        }
    }
}
