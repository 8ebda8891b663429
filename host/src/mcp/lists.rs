//! The lists: what is served, in stable order.

use rmcp::model::{ListToolsResult, PaginatedRequestParams, Tool};

use super::{Handler, convert};
use crate::base::Fault;

impl Handler {
    /// `tools/list`.
    pub(super) fn tools(&self, request: Option<PaginatedRequestParams>) -> Result<ListToolsResult, Fault> {
        if request.is_some_and(|r| r.cursor.is_some()) {
            return Err(Fault::invalid(
                "cursor_unknown",
                "There is no such cursor: the list comes whole, in one page.",
            ));
        }
        let catalog = self.plugins.catalog();
        let tools: Vec<Tool> = catalog.tools.values().map(|tool| tool.listed.clone()).collect();
        let mut result = ListToolsResult::with_all_items(tools);
        convert::cache_hints(&mut result);
        Ok(result)
    }
}
