//! When a component gets the grants of its policy, over all replicas. Pure.

use crate::{base::Digest, config::Policy, store::PluginRow};

/// Whether `digest` may have what `policy` (of text `text`) grants, given what the name's row
/// says of its past on this replica, and `elsewhere` on others. Grants were given to one component under one policy text; another component
/// gets them only where the operator did something after it was there: rewrote the policy, or
/// pinned the digest. A policy that is new on this replica was not rewritten for `digest` where another replica has
/// given it to another component: a folder that has got only one of two new files says nothing.
pub(super) fn gets_grants(
    row: Option<&PluginRow>,
    elsewhere: &[PluginRow],
    digest: Digest,
    text: &str,
    policy: &Policy,
    trust_replacements: bool,
) -> bool {
    if trust_replacements || policy.sha256 == Some(digest) {
        return true;
    }
    // A row that only tells of a refusal says nothing of grants.
    let decides = |row: &&PluginRow| row.policy == text && (row.granted.is_some() || row.digest.is_some());
    let Some(row) = row.filter(decides) else {
        let mut others = elsewhere.iter().filter(decides).peekable();
        return others.peek().is_none() || others.any(|row| row.granted == Some(digest));
    };
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
            assert_eq!(gets_grants(row.as_ref(), &[], digest, text, policy, trust), expected, "{what}");
        }
    }

    #[test]
    fn the_table_of_replicas() {
        let open = Policy::default();
        let pinned = Policy { sha256: Some(B), ..Policy::default() };
        let of =
            |granted, policy: &str| PluginRow { policy: policy.into(), ..row(Some(granted), Some(granted)) };
        let upgraded = || of(B, "q");
        for (what, mine, elsewhere, digest, text, policy, expected) in [
            ("a new replica with the same pair", None, vec![of(A, "p")], A, "p", &open, true),
            ("a new replica with another component", None, vec![of(A, "p")], B, "p", &open, false),
            ("the same, pinned", None, vec![of(A, "p")], B, "p", &pinned, true),
            ("a new replica with a new pair", None, vec![of(A, "p")], B, "q", &open, true),
            ("one that is behind goes on", Some(of(A, "p")), vec![upgraded()], A, "p", &open, true),
            ("a new replica that is behind", None, vec![upgraded(), of(A, "p")], A, "p", &open, true),
            ("one that follows", Some(of(A, "p")), vec![upgraded()], B, "q", &open, true),
            ("one with half of what is new", Some(of(A, "p")), vec![upgraded()], B, "p", &open, false),
            ("one with the other half", Some(of(A, "p")), vec![upgraded()], A, "q", &open, false),
            ("refused so far", Some(row(None, None)), vec![of(A, "p")], B, "p", &open, false),
            ("never granted elsewhere", None, vec![row(Some(B), None)], B, "p", &open, false),
            ("refused elsewhere", None, vec![row(None, None)], B, "p", &open, true),
        ] {
            assert_eq!(
                gets_grants(mine.as_ref(), &elsewhere, digest, text, policy, false),
                expected,
                "{what}"
            );
        }
    }
}
