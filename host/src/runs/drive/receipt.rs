//! What a call took, for its caller: `_meta["layby/receipt"]` of each result.

use rmcp::model::{CallToolResult, MetaObject};
use serde_json::{Map, Value};

use super::Driver;
use crate::{
    base::{Digest, Millis},
    capabilities::Used,
};

/// The bill of one run.
pub(super) struct Receipt {
    used: Used,
    host_calls: u64,
    bytes_out: u64,
    active: Millis,
    parked: Millis,
    resumed: u32,
    digest: Digest,
}

impl Driver {
    /// The bill of this run, whose last instance used `used`.
    pub(super) fn receipt(&self, used: Used) -> Receipt {
        let limit = Millis::from(self.run.work.plugin.policy.limits.active_time.duration());
        Receipt {
            used,
            bytes_out: self.run.flights.bytes_out(),
            host_calls: self.run.past.journal.calls(),
            active: Millis(limit.0.saturating_sub(self.active_left().0)),
            parked: self.durable.parked,
            resumed: self.durable.resumes,
            digest: self.run.work.plugin.digest,
        }
    }
}

impl Receipt {
    /// Adds itself to a result. What was replayed is counted once.
    pub(super) fn write(&self, result: &mut CallToolResult) {
        let members: [(&str, Value); 8] = [
            ("fuel", self.used.fuel.into()),
            ("peakMemoryBytes", self.used.memory.into()),
            ("hostCalls", self.host_calls.into()),
            ("bytesOut", self.bytes_out.into()),
            ("activeMs", self.active.0.into()),
            ("parkedMs", self.parked.0.into()),
            ("resumed", self.resumed.into()),
            ("digest", self.digest.to_string().into()),
        ];
        // Every call has one: its table is made once, and does not grow member by member.
        let mut receipt = Map::with_capacity(members.len());
        receipt.extend(members.map(|(name, value)| (name.to_owned(), value)));
        result.meta.get_or_insert_with(MetaObject::default).insert("layby/receipt".into(), receipt.into());
    }
}
