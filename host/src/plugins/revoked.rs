//! Components that the operator has revoked: every host on the store looks for them, and obeys.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Plugins,
    check::{Checker, Stop},
    problem::{Problem, neutral},
};
use crate::{
    base::Digest,
    config::{CatalogConfig, StoreConfig},
    store::{Revoked, Store, StoreError},
};

/// By component.
pub(super) type All = Arc<BTreeMap<Digest, Revoked>>;

/// What is revoked now.
pub(super) async fn read(store: &dyn Store) -> Result<All, StoreError> {
    let all = store.revoked().await?;
    Ok(Arc::new(all.into_iter().map(|revoked| (revoked.digest, revoked)).collect()))
}

/// Tells `known` of every change, until `cancel`. While the store does not answer, what is known holds.
pub(super) async fn follow(store: Arc<dyn Store>, known: watch::Sender<All>, cancel: CancellationToken) {
    let mut away = false;
    let look = async || {
        tokio::time::sleep(CatalogConfig::REVOKED.duration()).await;
        read(&*store).await
    };
    while let Some(seen) = cancel.run_until_cancelled(look()).await {
        match seen {
            Ok(all) => {
                away = false;
                known.send_if_modified(|old| {
                    let changed = **old != *all;
                    if changed {
                        tell(old, &all);
                        *old = all;
                    }
                    changed
                });
            }
            Err(e) if !std::mem::replace(&mut away, true) => {
                tracing::warn!("what is revoked cannot be read, trying again: {e}");
            }
            Err(_) => {}
        }
    }
}

/// Logs what has changed.
fn tell(old: &BTreeMap<Digest, Revoked>, new: &BTreeMap<Digest, Revoked>) {
    for revoked in new.values().filter(|revoked| !old.contains_key(&revoked.digest)) {
        let reason = reason(revoked);
        tracing::warn!(digest = %revoked.digest, "revoked{reason}: nothing runs on this component any more");
    }
    for digest in old.keys().filter(|digest| !new.contains_key(*digest)) {
        tracing::info!(%digest, "not revoked any more");
    }
}

/// The operator's reason, to follow a word.
fn reason(revoked: &Revoked) -> String {
    let text = revoked.reason.as_deref().map(|text| neutral(text, StoreConfig::REVOKED_REASON));
    text.map(|text| format!(" ({text})")).unwrap_or_default()
}

impl Problem {
    /// Of a component that may not run any more.
    pub(super) fn of_revoked(revoked: &Revoked) -> Self {
        let since = revoked.at.rfc3339();
        Self::revoked(format!("the component is revoked since {since}{}", reason(revoked)))
    }
}

impl Checker {
    /// Refuses a component that is revoked, as the store has it at this moment. Blocking.
    pub(super) fn may_run(&self, digest: Digest) -> Result<(), Stop> {
        let all = self.runtime.block_on(read(&*self.store));
        let all = all.map_err(|e| Stop::Failed(format!("what is revoked cannot be read: {e}")))?;
        all.get(&digest).map_or(Ok(()), |revoked| Err(Problem::of_revoked(revoked).into()))
    }
}

impl Plugins {
    /// True where nothing may run on the component `digest` any more, as far as this process knows. Cheap.
    pub fn is_revoked(&self, digest: Digest) -> bool {
        self.revoked.borrow().contains_key(&digest)
    }

    /// Ends once it is so. Cancel-safe.
    pub async fn until_revoked(&self, digest: Digest) {
        let mut revoked = self.revoked.clone();
        let ended = revoked.wait_for(|all| all.contains_key(&digest)).await.is_err();
        if ended {
            // Nobody tells any more: the host ends.
            std::future::pending::<()>().await;
        }
    }
}
