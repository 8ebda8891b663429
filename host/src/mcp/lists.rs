//! The lists: what is served, in stable order, in pages.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use rmcp::model::{
    CacheScope, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams,
};

use super::{
    Handler,
    access::{self, Access},
};
use crate::{base::Fault, plugins::Catalog};

/// How long a list may be kept, and whose it is: 5 s where everybody sees the same, since plugins come and go without
/// a restart; not at all where callers say who they are, since what is open to them may change at any time.
const fn cache(access: &Access) -> (Option<u64>, Option<CacheScope>) {
    if access.private { (Some(0), Some(CacheScope::Private)) } else { (Some(5000), Some(CacheScope::Public)) }
}

/// Which list a cursor belongs to: its first byte.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Kind {
    Tools = b't',
    Prompts = b'p',
    Resources = b'r',
    Templates = b'u',
}

impl Kind {
    /// The kind of thing that a scope opens.
    const fn opened_as(self) -> access::Kind {
        match self {
            Self::Tools => access::Kind::Tool,
            Self::Prompts => access::Kind::Prompt,
            Self::Resources | Self::Templates => access::Kind::Resource,
        }
    }
}

/// Some consecutive items, and where the rest begins.
struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
}

/// Puts a page into MCP's result of that list, with the hints for caches.
macro_rules! result {
    ($result:ident, $page:expr, $access:expr) => {{
        let page = $page;
        let mut result = $result::with_all_items(page.items);
        result.next_cursor = page.next;
        (result.ttl_ms, result.cache_scope) = cache($access);
        result
    }};
}

impl Handler {
    /// `tools/list`.
    pub(super) fn tools(
        &self,
        request: Option<PaginatedRequestParams>,
        access: &Access,
    ) -> Result<ListToolsResult, Fault> {
        let page = self.page(Kind::Tools, request, access, |c| &c.tools, |tool| tool.listed.clone())?;
        let mut result = result!(ListToolsResult, page, access);
        result.tools = self.bridged(result.tools, result.next_cursor.is_none());
        Ok(result)
    }

    /// `prompts/list`.
    pub(super) fn prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        access: &Access,
    ) -> Result<ListPromptsResult, Fault> {
        let page =
            self.page(Kind::Prompts, request, access, |c| &c.prompts, |prompt| prompt.listed.clone())?;
        Ok(result!(ListPromptsResult, page, access))
    }

    /// `resources/list`.
    pub(super) fn resources(
        &self,
        request: Option<PaginatedRequestParams>,
        access: &Access,
    ) -> Result<ListResourcesResult, Fault> {
        let page = self.page(
            Kind::Resources,
            request,
            access,
            |c| &c.resources,
            |resource| resource.listed.clone(),
        )?;
        Ok(result!(ListResourcesResult, page, access))
    }

    /// `resources/templates/list`.
    pub(super) fn templates(
        &self,
        request: Option<PaginatedRequestParams>,
        access: &Access,
    ) -> Result<ListResourceTemplatesResult, Fault> {
        let page = self.page(
            Kind::Templates,
            request,
            access,
            |c| &c.templates,
            |template| template.listed.clone(),
        )?;
        Ok(result!(ListResourceTemplatesResult, page, access))
    }

    fn page<T, W>(
        &self,
        kind: Kind,
        request: Option<PaginatedRequestParams>,
        access: &Access,
        list: impl FnOnce(&Catalog) -> &BTreeMap<String, Arc<T>>,
        show: impl Fn(&T) -> W,
    ) -> Result<Page<W>, Fault> {
        let after = request.and_then(|r| r.cursor).map(|cursor| name_in(kind, &cursor)).transpose()?;
        let catalog = self.plugins.catalog();
        let open = |name: &str| access.admits(kind.opened_as(), name);
        Ok(page(kind, list(&catalog), after.as_deref(), self.page_size, open, |item| show(item)))
    }
}

/// At most `size` items after the name `after`, which may have gone: so a walk stays right while
/// plugins come and go.
fn page<T, W>(
    kind: Kind,
    list: &BTreeMap<String, T>,
    after: Option<&str>,
    size: usize,
    open: impl Fn(&str) -> bool,
    show: impl Fn(&T) -> W,
) -> Page<W> {
    let from = after.map_or(Unbounded, Excluded);
    let mut rest = list.range::<str, _>((from, Unbounded)).filter(|(name, _)| open(name));
    let mut last = None;
    let items = rest.by_ref().take(size).map(|(name, item)| (last = Some(name), show(item)).1).collect();
    let more = rest.next().is_some();
    Page { items, next: last.filter(|_| more).map(|name| cursor_after(kind, name)) }
}

/// Where the rest of a list begins, opaque to clients: base64url of the kind and the last name.
fn cursor_after(kind: Kind, name: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode([&[kind as u8], name.as_bytes()].concat())
}

/// The name that [`cursor_after`] was given.
fn name_in(kind: Kind, cursor: &str) -> Result<String, Fault> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
    let name = bytes.as_deref().and_then(|bytes| match bytes.split_first() {
        Some((first, name)) if *first == kind as u8 => std::str::from_utf8(name).ok(),
        _ => None,
    });
    name.map(str::to_owned).ok_or_else(|| {
        Fault::invalid(
            "cursor_unknown",
            "This list gave no such cursor. Send the `nextCursor` of its last page as it is, or none for the first page.",
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    fn list(names: &[&str]) -> BTreeMap<String, ()> {
        names.iter().map(|name| ((*name).to_owned(), ())).collect()
    }

    proptest! {
        #[test]
        fn a_walk_meets_every_name_once(
            names in proptest::collection::btree_set("\\PC{0,5}", 0..30),
            size in 1usize..10,
        ) {
            let all: BTreeMap<String, String> = names.iter().map(|n| (n.clone(), n.clone())).collect();
            let (mut met, mut after) = (Vec::new(), None::<String>);
            loop {
                let page = page(Kind::Resources, &all, after.as_deref(), size, |_| true, String::clone);
                prop_assert!(page.items.len() <= size);
                met.extend(page.items);
                let Some(cursor) = page.next else { break };
                after = Some(name_in(Kind::Resources, &cursor).unwrap());
            }
            prop_assert_eq!(met, names.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_text_is_a_cursor_or_refused(text in any::<String>()) {
            if let Ok(name) = name_in(Kind::Tools, &text) {
                prop_assert_eq!(cursor_after(Kind::Tools, &name), text);
            }
        }
    }

    #[test]
    fn a_walk_goes_on_where_its_last_name_stood() {
        let first = page(Kind::Tools, &list(&["a", "b", "c", "d"]), None, 2, |_| true, |()| ());
        let after = name_in(Kind::Tools, &first.next.unwrap()).unwrap();
        let rest = page(Kind::Tools, &list(&["a", "bb", "d", "e"]), Some(&after), 9, |_| true, |()| ());
        assert_eq!((after.as_str(), rest.items.len(), rest.next), ("b", 3, None));
    }

    #[test]
    fn cursors_belong_to_their_list() {
        let cursor = cursor_after(Kind::Prompts, "é");
        assert_eq!(name_in(Kind::Prompts, &cursor).unwrap(), "é");
        for (kind, cursor) in [
            (Kind::Tools, cursor.as_str()),
            (Kind::Prompts, ""),
            (Kind::Prompts, "!"),
            (Kind::Prompts, "cP8"),
            (Kind::Prompts, "cA=="),
        ] {
            let fault = name_in(kind, cursor).unwrap_err();
            assert_eq!((fault.rpc, fault.code), (Fault::INVALID_PARAMS, "cursor_unknown"), "{cursor}");
        }
    }
}
