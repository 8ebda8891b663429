//! What the watcher knows of one plugin name, and the catalog made from all of them. No I/O.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use tokio::sync::Semaphore;

use super::{
    Catalog, Entry, Pace, Plugin, Refusal, Tool,
    check::Version,
    declare::{Built, Declared},
    scan::{Pair, Seen},
};
use crate::{
    config::{Grants, Limits},
    store::PluginRow,
};

/// One plugin name of the folder.
pub(super) struct Slot {
    /// Tells this life of the name from an earlier one, whose jobs may still end.
    pub(super) life: u64,
    /// As the store has it, or would.
    pub(super) row: PluginRow,
    pub(super) live: Option<Live>,
    pub(super) refusal: Option<Refusal>,
    /// What the folder has; none while it cannot be looked at.
    pub(super) seen: Option<Seen>,
    /// The pair that was last checked.
    pub(super) taken: Option<Pair>,
    /// Since when the component is missing.
    pub(super) gone_since: Option<Instant>,
    /// A job of this name runs.
    pub(super) busy: bool,
    /// When the last candidate is to be checked again.
    pub(super) retry_at: Option<Instant>,
    /// When the version of the row is to be restored.
    pub(super) restore_at: Option<Instant>,
    pub(super) relist_at: Option<Instant>,
    pub(super) listed_at: Option<Instant>,
    /// Why the last listing on demand failed: said once.
    pub(super) relist_error: Option<String>,
    running: Gate,
    waiting: Gate,
}

/// A version that serves.
pub(super) struct Live {
    pub(super) plugin: Arc<Plugin>,
    pub(super) tools: Vec<Arc<Tool>>,
    pub(super) declared: Vec<Declared>,
}

impl Slot {
    /// A name, with what the store remembers of it.
    pub(super) fn new(life: u64, row: PluginRow) -> Self {
        let refusal = row.refusal.as_deref().and_then(|text| serde_json::from_str(text).ok());
        Self {
            life,
            row,
            live: None,
            refusal,
            seen: None,
            taken: None,
            gone_since: None,
            busy: false,
            retry_at: None,
            restore_at: None,
            relist_at: None,
            listed_at: None,
            relist_error: None,
            running: Gate::default(),
            waiting: Gate::default(),
        }
    }

    /// The row that `version` would have.
    pub(super) fn row_of(&self, version: &Version) -> PluginRow {
        let withheld = !version.with_grants && version.policy.grants != Grants::default();
        PluginRow {
            name: self.row.name.clone(),
            digest: Some(version.digest),
            granted: if version.with_grants { Some(version.digest) } else { self.row.granted },
            policy: version.text.clone(),
            without_grants: withheld,
            tools: version.built.iter().map(|b| b.name.clone()).collect(),
            listed: listed_text(&version.declared),
            adopted_at: self.row.adopted_at,
            refusal: None,
        }
    }

    /// Lets `version` serve. Its row has been stored.
    pub(super) fn serve(&mut self, version: Version) {
        let Limits { concurrency, parked, .. } = version.policy.limits;
        let plugin = Arc::new(Plugin {
            name: self.row.name.clone(),
            digest: version.digest,
            granted: version.granted,
            prepared: version.prepared,
            slots: self.running.resize(concurrency),
            waiting: self.waiting.resize(parked),
            policy: version.policy,
        });
        self.relist_at = None;
        self.relist_error = None;
        self.serve_tools(plugin, version.built, version.declared);
    }

    /// The same version with the tools that it lists now.
    pub(super) fn serve_tools(&mut self, plugin: Arc<Plugin>, built: Vec<Built>, declared: Vec<Declared>) {
        let tools = built
            .into_iter()
            .map(|mut b| {
                // Whose question a person is asked: clients can show it, and a plugin cannot claim another's name.
                b.listed
                    .meta
                    .get_or_insert_default()
                    .insert("layby/plugin".into(), plugin.name.as_str().into());
                Arc::new(Tool {
                    name: b.name,
                    own_name: b.own_name,
                    plugin: Arc::clone(&plugin),
                    listed: b.listed,
                    input: b.input,
                    output: b.output,
                    headers: b.headers,
                    pace: Pace::default(),
                })
            })
            .collect();
        self.live = Some(Live { plugin, tools, declared });
    }

    /// Takes back permits that were in use when a limit was lowered.
    pub(super) fn settle_gates(&mut self) {
        self.running.settle();
        self.waiting.settle();
    }

    fn entry(&self) -> Entry {
        let unchecked = self.seen.is_some_and(|s| Some(s.pair()) != self.taken);
        let pending = self.busy || self.restore_at.is_some() || unchecked;
        // What was restored is only compared with its files: nothing is compiled.
        let comparing = self.live.is_some() && self.taken.is_none();
        Entry {
            name: self.row.name.clone(),
            serving: self.live.as_ref().map(|l| l.plugin.digest.to_string()),
            tools: self.live.iter().flat_map(|l| &l.tools).map(|t| t.name.clone()).collect(),
            without_grants: self.live.is_some() && self.row.without_grants,
            compiling: pending && !comparing,
            refusal: self.refusal.clone(),
        }
    }
}

/// `declared` as it is kept in a row.
pub(super) fn listed_text(declared: &[Declared]) -> String {
    // Strings and booleans always serialize.
    serde_json::to_string(declared).unwrap_or_default()
}

/// The catalog of all `slots`, and of files that make no plugin (`odd`).
pub(super) fn catalog(slots: &BTreeMap<String, Slot>, odd: &BTreeMap<String, Refusal>) -> Catalog {
    let mut catalog = Catalog::default();
    for (name, slot) in slots {
        catalog.report.push(slot.entry());
        let Some(live) = &slot.live else { continue };
        catalog.plugins.insert(name.clone(), Arc::clone(&live.plugin));
        for tool in &live.tools {
            catalog.tools.insert(tool.name.clone(), Arc::clone(tool));
        }
    }
    for (name, refusal) in odd {
        let refusal = Some(refusal.clone());
        catalog.report.push(Entry { name: name.clone(), refusal, ..Entry::default() });
    }
    catalog
}

/// True where both serve the same versions and report the same.
pub(super) fn same(a: &Catalog, b: &Catalog) -> bool {
    fn same_map<T>(a: &BTreeMap<String, Arc<T>>, b: &BTreeMap<String, Arc<T>>) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|((x, v), (y, w))| x == y && Arc::ptr_eq(v, w))
    }
    a.report == b.report && same_map(&a.plugins, &b.plugins) && same_map(&a.tools, &b.tools)
}

/// True where a client sees the same `tools/list`.
pub(super) fn same_list(a: &Catalog, b: &Catalog) -> bool {
    a.tools.len() == b.tools.len()
        && a.tools.values().zip(b.tools.values()).all(|(x, y)| Arc::ptr_eq(x, y) || x.listed == y.listed)
}

/// A number of permits that can change while some are in use; all versions of a plugin share it.
struct Gate {
    semaphore: Arc<Semaphore>,
    size: u32,
    /// Permits still to be taken back, as they come free.
    debt: usize,
}

impl Default for Gate {
    fn default() -> Self {
        Self { semaphore: Arc::new(Semaphore::new(0)), size: 0, debt: 0 }
    }
}

impl Gate {
    fn resize(&mut self, size: u32) -> Arc<Semaphore> {
        if size >= self.size {
            let more = (size - self.size) as usize;
            let paid = self.debt.min(more);
            self.debt -= paid;
            self.semaphore.add_permits(more - paid);
        } else {
            self.debt += (self.size - size) as usize;
        }
        self.size = size;
        self.settle();
        Arc::clone(&self.semaphore)
    }

    fn settle(&mut self) {
        if self.debt > 0 {
            self.debt -= self.semaphore.forget_permits(self.debt);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gate_shrinks_as_permits_come_back() {
        let mut gate = Gate::default();
        let permits = gate.resize(4);
        let held: Vec<_> = (0..4).map(|_| Arc::clone(&permits).try_acquire_owned().unwrap()).collect();
        gate.resize(1);
        assert_eq!(permits.available_permits(), 0);
        drop(held);
        gate.settle();
        assert_eq!(permits.available_permits(), 1);
        gate.resize(3);
        assert_eq!(permits.available_permits(), 3);
    }

    proptest! {
        #[test]
        fn a_gate_ends_at_its_last_size(sizes in proptest::collection::vec(0u32..20, 1..20), held in 0usize..20) {
            let mut gate = Gate::default();
            let permits = gate.resize(20);
            let held: Vec<_> = (0..held).map(|_| Arc::clone(&permits).try_acquire_owned().unwrap()).collect();
            for size in &sizes {
                gate.resize(*size);
            }
            drop(held);
            gate.settle();
            prop_assert_eq!(permits.available_permits(), *sizes.last().unwrap() as usize);
        }
    }
}
