//! `layby plugins revoke` and `layby plugins revoked`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    exit::{Exit, Failure},
    out::{Out, table},
    store,
};
use crate::{
    base::{Clock as _, Digest, SystemClock, neutral_line},
    config::{Config, StoreConfig},
    plugins::Refusal,
    store::{PluginRow, Revoked, Store, StoreError},
};

/// Digits of a digest that name it where it is known: as many as lists and logs show.
const SHORT: usize = 12;

/// Options of `layby plugins revoke`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Component, as its SHA-256 digest; of one that the hosts on this database know, its first 12 digits will do
    digest: String,
    /// Why, for lists and logs
    #[arg(long, value_name = "TEXT", conflicts_with = "undo")]
    reason: Option<String>,
    /// Let it be loaded again; tasks that were ended stay so
    #[arg(long)]
    undo: bool,
}

/// Revokes a component on all hosts of the store, or takes that back.
///
/// # Errors
/// `digest_unknown`, `reason_too_long`, `too_many_revoked`, `not_revoked`; the store cannot be used.
pub(crate) fn run(args: &Args, config: &Config, out: Out) -> Result<Exit, Failure> {
    if let Some(reason) = &args.reason
        && reason.chars().count() > StoreConfig::REVOKED_REASON
    {
        let text = format!("the reason is longer than {} characters", StoreConfig::REVOKED_REASON);
        return Err(Failure::usage("reason_too_long", text));
    }
    let (revoked, changed) = store::block_on(async {
        let store = store::open(config).await?;
        let done = change(args, &*store).await;
        store.close().await;
        done
    })?;
    if out.json {
        let mut json = to_json(&revoked);
        json["revoked"] = (!args.undo).into();
        json["changed"] = changed.into();
        out.json(&json)?;
        return Ok(Exit::Ok);
    }
    let digest = revoked.digest;
    out.text(&match (args.undo, changed) {
        (true, _) => format!(
            "{digest} is not revoked any more: running hosts load it again within a few seconds where it lies in their folders. \
             Tasks that were ended stay ended."
        ),
        (false, true) => format!(
            "{digest} is revoked: running hosts stop what runs on it within a second or two, end its tasks, and load it no more."
        ),
        (false, false) => format!("{digest} is revoked already, since {}.", revoked.at.rfc3339()),
    })?;
    Ok(Exit::Ok)
}

/// What was revoked, and whether that is news.
async fn change(args: &Args, store: &dyn Store) -> Result<(Revoked, bool), Failure> {
    let all = store.revoked().await?;
    let digest = named(&args.digest, &known(store, &all).await?)?;
    let there = all.iter().find(|revoked| revoked.digest == digest).cloned();
    match there {
        Some(there) if args.undo => {
            store.unrevoke(digest).await?;
            Ok((there, true))
        }
        Some(there) => Ok((there, false)),
        None if args.undo => {
            let text = format!("{digest} is not revoked: `layby plugins revoked` lists what is");
            Err(Failure::refused("not_revoked", text))
        }
        None if all.len() >= StoreConfig::REVOKED => {
            let text = format!(
                "{} components are revoked, as many as may be: take back what nobody has any more, with --undo",
                all.len()
            );
            Err(Failure::refused("too_many_revoked", text))
        }
        None => {
            let revoked = Revoked { digest, at: SystemClock.now(), reason: args.reason.clone() };
            store.revoke(revoked.clone()).await?;
            Ok((revoked, true))
        }
    }
}

/// Every component that the store names.
async fn known(store: &dyn Store, revoked: &[Revoked]) -> Result<BTreeSet<Digest>, StoreError> {
    let mut known: BTreeSet<Digest> = store.digests_in_use().await?.into_iter().collect();
    known.extend(revoked.iter().map(|revoked| revoked.digest));
    let elsewhere = store.plugins_elsewhere().await?.into_iter().map(|other| other.row);
    let refused = |row: PluginRow| {
        let refusal: Refusal = serde_json::from_str(row.refusal.as_deref()?).ok()?;
        refusal.digest?.parse::<Digest>().ok()
    };
    known.extend(store.plugins().await?.into_iter().chain(elsewhere).filter_map(refused));
    Ok(known)
}

/// The digest that `text` names: a whole one, or the start of one that is `known`.
fn named(text: &str, known: &BTreeSet<Digest>) -> Result<Digest, Failure> {
    if let Ok(digest) = text.parse() {
        return Ok(digest);
    }
    let start = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    let mut fits =
        known.iter().filter(|digest| start.len() >= SHORT && digest.to_string().starts_with(&start));
    match (fits.next(), fits.next()) {
        (Some(digest), None) => Ok(*digest),
        (Some(_), Some(_)) => Err(Failure::usage(
            "digest_unknown",
            format!("several components begin with {}: write more of the digest", neutral_line(text)),
        )),
        (None, _) => Err(Failure::usage(
            "digest_unknown",
            format!(
                "{} is no digest of 64 hexadecimal digits, nor the first {SHORT} or more of one that is known here: \
                 `layby plugins` and `layby inspect FILE` show them",
                neutral_line(text)
            ),
        )),
    }
}

/// Lists what is revoked.
///
/// # Errors
/// The store cannot be used.
pub(crate) fn list(config: &Config, out: Out) -> Result<Exit, Failure> {
    let all = store::block_on(async {
        let store = store::open(config).await?;
        let all = store.revoked().await;
        store.close().await;
        Ok(all?)
    })?;
    if out.json {
        out.json(&json!({"revoked": all.iter().map(to_json).collect::<Vec<_>>()}))?;
    } else if all.is_empty() {
        out.text("No component is revoked.")?;
    } else {
        let row = |revoked: &Revoked| {
            let reason = revoked.reason.clone().unwrap_or_default();
            vec![revoked.digest.to_string(), revoked.at.rfc3339(), reason]
        };
        out.text(&table(&["DIGEST", "REVOKED", "REASON"], &all.iter().map(row).collect::<Vec<_>>()))?;
    }
    Ok(Exit::Ok)
}

fn to_json(revoked: &Revoked) -> Value {
    let Revoked { digest, at, reason } = revoked;
    json!({"digest": digest.to_string(), "revokedAt": at.rfc3339(), "reason": reason})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_start_names_what_is_known_alone() {
        let (a, b) = (Digest([0xab; 32]), Digest([0xac; 32]));
        let mut near = a;
        near.0[31] = 0;
        let known = BTreeSet::from([a, b, near]);
        let named = |text: &str| named(text, &known).map_err(|e| e.code);
        let unknown = Digest([1; 32]);
        assert_eq!(named(&unknown.to_string()), Ok(unknown));
        assert_eq!(named(&format!("sha256:{a}")), Ok(a));
        assert_eq!(named(&b.short()), Ok(b));
        assert_eq!(named(&b.short().to_uppercase()), Ok(b));
        assert_eq!(named(&a.to_string()[..63]), Ok(a));
        for wrong in [a.short(), b.short()[..11].to_owned(), unknown.short(), String::new(), "é".repeat(12)]
        {
            assert_eq!(named(&wrong), Err("digest_unknown".to_owned()), "{wrong}");
        }
    }
}
