//! What the watcher knows of one plugin name, and the catalog made from all of them. No I/O.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use super::{
    Catalog, Entry, Lists, Pace, Plugin, Prompt, Refusal, Resource, Revisions, Template, Tool,
    check::Version,
    declare::{Built, BuiltPrompt, BuiltTemplate, BuiltTool, Declared},
    scan::{Pair, Seen},
};
use crate::{
    base::Pool,
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
    /// It was refused, and is tried again at `restore_at`.
    pub(super) restore_refused: bool,
    pub(super) relist_at: Option<Instant>,
    pub(super) listed_at: Option<Instant>,
    /// Lists that the plugin said have changed: subscribers are told with the next catalog.
    pub(super) said: Lists,
    /// Why the last listing on demand failed: said once.
    pub(super) relist_error: Option<String>,
    /// Shared by all versions.
    running: Arc<Pool>,
    waiting: Arc<Pool>,
}

/// A version that serves.
pub(super) struct Live {
    pub(super) plugin: Arc<Plugin>,
    pub(super) tools: Vec<Arc<Tool>>,
    pub(super) prompts: Vec<Arc<Prompt>>,
    pub(super) resources: Vec<Arc<Resource>>,
    pub(super) templates: Vec<Arc<Template>>,
    pub(super) declared: Arc<Declared>,
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
            restore_refused: false,
            relist_at: None,
            listed_at: None,
            said: Lists::default(),
            relist_error: None,
            running: Pool::parted(0),
            waiting: Pool::whole(0),
        }
    }

    /// The row that `version` would have.
    pub(super) fn row_of(&self, version: &Version) -> PluginRow {
        let withheld = !version.with_grants && version.policy.grants != Grants::default();
        let mut row = PluginRow {
            name: self.row.name.clone(),
            digest: Some(version.digest),
            granted: if version.with_grants { Some(version.digest) } else { self.row.granted },
            policy: version.text.clone(),
            without_grants: withheld,
            listed: version.declared.to_row(),
            adopted_at: self.row.adopted_at,
            ..PluginRow::default()
        };
        version.built.own(&mut row);
        row
    }

    /// Lets `version` serve. Its row has been stored.
    pub(super) fn serve(&mut self, version: Version) {
        let Limits { concurrency, parked, .. } = version.policy.limits;
        self.running.resize(concurrency.into());
        self.waiting.resize(parked.into());
        let plugin = Arc::new(Plugin {
            name: self.row.name.clone(),
            digest: version.digest,
            granted: version.granted,
            prepared: version.prepared,
            slots: self.running.clone(),
            waiting: self.waiting.clone(),
            policy: version.policy,
        });
        self.relist_error = None;
        self.live = None;
        self.serve_lists(plugin, version.built, version.declared);
    }

    /// The same version with what it lists now. What it lists as before stays the same, with what was
    /// measured of it.
    pub(super) fn serve_lists(&mut self, plugin: Arc<Plugin>, built: Built, declared: Declared) {
        let old = self.live.take();
        let old_of = |same: fn(&Declared, &Declared) -> bool| {
            old.as_ref().filter(|live| same(&live.declared, &declared))
        };
        let tools = match old_of(|a, b| a.tools == b.tools) {
            Some(live) => live.tools.clone(),
            None => built.tools.into_iter().map(|b| tool(&plugin, b)).collect(),
        };
        let prompts = match old_of(|a, b| a.prompts == b.prompts) {
            Some(live) => live.prompts.clone(),
            None => built.prompts.into_iter().map(|b| prompt(&plugin, b)).collect(),
        };
        let resources = match old_of(|a, b| a.resources == b.resources) {
            Some(live) => live.resources.clone(),
            None => built.resources.into_iter().map(|b| resource(&plugin, b)).collect(),
        };
        let templates = match old_of(|a, b| a.templates == b.templates) {
            Some(live) => live.templates.clone(),
            None => built.templates.into_iter().map(|b| template(&plugin, b)).collect(),
        };
        self.live = Some(Live { plugin, tools, prompts, resources, templates, declared: Arc::new(declared) });
    }

    fn entry(&self) -> Entry {
        let unchecked = self.seen.is_some_and(|s| Some(s.pair()) != self.taken);
        let pending = self.busy || self.restore_at.is_some() || unchecked;
        // What was restored is only compared with its files: nothing is compiled.
        let comparing = self.live.is_some() && self.taken.is_none();
        let pauses = self.restore_refused && !self.busy && !unchecked;
        Entry {
            name: self.row.name.clone(),
            serving: self.live.as_ref().map(|l| l.plugin.digest.to_string()),
            tools: self.live.iter().flat_map(|l| &l.tools).map(|t| t.name.clone()).collect(),
            without_grants: self.live.is_some() && self.row.without_grants,
            compiling: pending && !comparing && !pauses,
            pending: pending && !comparing,
            refusal: self.refusal.clone(),
        }
    }
}

/// Says in an item's `_meta` whose it is: clients can show it, and a plugin cannot claim another's name.
fn sign(meta: &mut Option<rmcp::model::MetaObject>, plugin: &Plugin) {
    meta.get_or_insert_default().insert("layby/plugin".into(), plugin.name.as_str().into());
}

/// A tool as it is served by `plugin`.
pub(super) fn tool(plugin: &Arc<Plugin>, mut built: BuiltTool) -> Arc<Tool> {
    sign(&mut built.listed.meta, plugin);
    Arc::new(Tool {
        name: built.name,
        own_name: built.own_name,
        plugin: Arc::clone(plugin),
        listed: built.listed,
        input: built.input,
        output: built.output,
        headers: built.headers,
        pace: Pace::default(),
    })
}

/// A prompt as it is served by `plugin`.
pub(super) fn prompt(plugin: &Arc<Plugin>, mut built: BuiltPrompt) -> Arc<Prompt> {
    sign(&mut built.listed.meta, plugin);
    Arc::new(Prompt {
        name: built.listed.name.clone(),
        own_name: built.own_name,
        plugin: Arc::clone(plugin),
        listed: built.listed,
    })
}

fn resource(plugin: &Arc<Plugin>, mut listed: rmcp::model::Resource) -> Arc<Resource> {
    sign(&mut listed.meta, plugin);
    Arc::new(Resource { plugin: Arc::clone(plugin), listed })
}

fn template(plugin: &Arc<Plugin>, mut built: BuiltTemplate) -> Arc<Template> {
    sign(&mut built.listed.meta, plugin);
    Arc::new(Template { plugin: Arc::clone(plugin), listed: built.listed, uris: built.uris })
}

/// The catalog of all `slots`, and of files that make no plugin (`odd`).
pub(super) fn catalog(slots: &BTreeMap<String, Slot>, odd: &BTreeMap<String, Refusal>) -> Catalog {
    let mut catalog = Catalog::default();
    for (name, slot) in slots {
        catalog.report.push(slot.entry());
        let Some(live) = &slot.live else { continue };
        catalog.plugins.insert(name.clone(), Arc::clone(&live.plugin));
        catalog.tools.extend(live.tools.iter().map(|t| (t.name.clone(), Arc::clone(t))));
        catalog.prompts.extend(live.prompts.iter().map(|p| (p.name.clone(), Arc::clone(p))));
        catalog.resources.extend(live.resources.iter().map(|r| (r.listed.uri.clone(), Arc::clone(r))));
        catalog
            .templates
            .extend(live.templates.iter().map(|t| (t.listed.uri_template.clone(), Arc::clone(t))));
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
    a.report == b.report
        && same_map(&a.plugins, &b.plugins)
        && same_map(&a.tools, &b.tools)
        && same_map(&a.prompts, &b.prompts)
        && same_map(&a.resources, &b.resources)
        && same_map(&a.templates, &b.templates)
}

/// True where a client sees another list.
fn differs<T, L: PartialEq>(
    a: &BTreeMap<String, Arc<T>>,
    b: &BTreeMap<String, Arc<T>>,
    listed: impl Fn(&T) -> &L,
) -> bool {
    a.len() != b.len()
        || a.values().zip(b.values()).any(|(x, y)| !Arc::ptr_eq(x, y) && listed(x) != listed(y))
}

/// The revisions of `new`, which follows `old`: grown where a client sees another list, or where a
/// plugin `said` so.
pub(super) fn revisions(old: &Catalog, new: &Catalog, said: Lists) -> Revisions {
    let tools = said.tools || differs(&old.tools, &new.tools, |t| &t.listed);
    let prompts = said.prompts || differs(&old.prompts, &new.prompts, |p| &p.listed);
    let resources = said.resources
        || differs(&old.resources, &new.resources, |r| &r.listed)
        || differs(&old.templates, &new.templates, |t| &t.listed);
    Revisions {
        tools: old.revisions.tools + u64::from(tools),
        prompts: old.revisions.prompts + u64::from(prompts),
        resources: old.revisions.resources + u64::from(resources),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_differs_where_a_client_sees_it() {
        let list = |items: &[(&str, i32)]| -> BTreeMap<String, Arc<i32>> {
            items.iter().map(|(name, item)| ((*name).to_owned(), Arc::new(*item))).collect()
        };
        let old = list(&[("a", 1), ("b", 2)]);
        assert!(!differs(&old, &old.clone(), |i| i));
        assert!(!differs(&old, &list(&[("a", 1), ("b", 2)]), |i| i), "made anew, and equal");
        assert!(
            differs(&old, &list(&[("a", 1)]), |i| i) && differs(&old, &list(&[("a", 1), ("b", 3)]), |i| i)
        );
    }

    #[test]
    fn what_was_said_grows_its_own_revision() {
        let (old, new) = (Catalog::default(), Catalog::default());
        let said = Lists { prompts: true, ..Lists::default() };
        assert_eq!(revisions(&old, &new, said), Revisions { prompts: 1, ..Revisions::default() });
        assert_eq!(revisions(&old, &new, Lists::default()), old.revisions);
    }
}
