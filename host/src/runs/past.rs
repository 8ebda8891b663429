//! What a run has behind it: how it began, and what it has done so far.

use serde::{Deserialize, Serialize};

use super::{
    Client,
    target::{Kind, Work},
};
use crate::{
    base::{Fault, UnixMillis},
    capabilities::{Began, Request, journal_key},
    config::{CallPolicy, Grants, Limits},
    journal::{Header, Journal, Kept, Start},
    plugins::Plugin,
    store::{boottime_ns, os_boot_id},
};

/// What a run starts with, and its journal.
pub(super) struct Past {
    /// Of everything random.
    pub(super) seed: [u8; 32],
    pub(super) journal: Journal,
    pub(super) began: Began,
}

/// The operator's settings that a run began with. They are its own to the end, but for what is revoked meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Bounds.
    pub limits: Limits,
    /// How calls of the tool are held.
    pub call: CallPolicy,
    /// What the plugin could reach.
    pub grants: Grants,
    /// What is run.
    #[serde(default, skip_serializing_if = "Kind::is_tool")]
    pub kind: Kind,
}

impl Settings {
    /// What the guest of the run with this header was asked to do; none where that cannot be read.
    pub fn request(&self, header: &Header) -> Option<Request> {
        let (name, arguments) = (header.tool.clone(), header.arguments.clone());
        Some(match self.kind {
            Kind::Tool => Request::Tool { name, arguments },
            Kind::Prompt => Request::Prompt { name, arguments: serde_json::from_str(&arguments).ok()? },
            Kind::Resource => Request::Resource { uri: name },
        })
    }
}

impl Past {
    /// Of a run that begins now.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn none(plugin: &Plugin) -> Result<Self, Fault> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| {
            tracing::error!("no randomness: {e}");
            Fault::internal("host_failure", "The host has no randomness. The operator's log has the reason.")
        })?;
        let journal = Journal::record(journal_key(seed), plugin.policy.limits.journal.as_usize());
        if plugin.prepared.pins().is_some() {
            // From its first moment: what it does must never be done again.
            journal.pin("its component imports a call that cannot be replayed");
        }
        Ok(Self { seed, journal, began: Began::now() })
    }

    /// Of a run whose journal was `kept`, where its component is compiled as `code` names it. `wall` is the time by the
    /// clock that tasks go by, the same on every machine.
    pub(super) fn of(kept: Kept, limits: &Limits, code: u64, wall: UnixMillis) -> Self {
        let header = &kept.header;
        let (seed, compare_fuel) = (header.seed, header.code == code);
        let began = resumed(&header.start, now(wall));
        let journal = Journal::replay(journal_key(seed), limits.journal.as_usize(), kept, compare_fuel);
        Self { seed, journal, began }
    }

    /// The journal's first piece; `wall` as for [`Past::of`].
    pub(super) fn header(&self, work: &Work, request: &Request, client: Client, wall: UnixMillis) -> Header {
        let (kind, tool, arguments) = match request {
            Request::Tool { name, arguments } => (Kind::Tool, name.clone(), arguments.clone()),
            Request::Prompt { name, arguments } => {
                // Strings always have a JSON text.
                let text = serde_json::to_string(arguments).unwrap_or_default();
                (Kind::Prompt, name.clone(), text)
            }
            Request::Resource { uri } => (Kind::Resource, uri.clone(), String::new()),
            // Asks nothing, and so never becomes a row.
            Request::Completion { .. } => Default::default(),
        };
        let settings = Settings {
            limits: work.plugin.policy.limits.clone(),
            call: work.policy().clone(),
            grants: work.plugin.granted.grants.clone(),
            kind,
        };
        let since = u64::try_from(self.began.at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let lasted = since.saturating_add(self.began.before);
        let now = now(wall);
        Header {
            digest: work.plugin.digest.0,
            semantics: crate::engine::SEMANTICS,
            code: work.plugin.prepared.code(),
            seed: self.seed,
            start: Start {
                wall: now.wall.saturating_sub(lasted),
                boot: now.boot,
                boottime: now.boottime.saturating_sub(lasted),
            },
            tool,
            arguments,
            client: client.bits(),
            // Plain data: it always has a JSON text.
            policy: serde_json::to_string(&settings).unwrap_or_default(),
        }
    }
}

/// This moment, by clocks that outlive the process.
fn now(wall: UnixMillis) -> Start {
    Start {
        wall: wall.0.saturating_mul(1_000_000),
        // A boot that cannot be told is no other process's either: then the wall clock counts.
        boot: os_boot_id().map_or([0; 16], |id| *id.as_bytes()),
        boottime: boottime_ns(),
    }
}

/// When a run that began at `start` began, seen from `now`. Within one boot of the system its own clock counts, which
/// nobody sets; else the wall clock does.
fn resumed(start: &Start, now: Start) -> Began {
    let same_boot = start.boot == now.boot && now.boot != [0; 16];
    let before = if same_boot {
        now.boottime.saturating_sub(start.boottime)
    } else {
        now.wall.saturating_sub(start.wall)
    };
    Began { at: std::time::Instant::now(), before }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_one_boot_nobody_can_set_the_clock() {
        let start = Start { wall: 1_000, boot: [1; 16], boottime: 100 };
        let at =
            |wall, boot: u8, boottime| resumed(&start, Start { wall, boot: [boot; 16], boottime }).before;
        assert_eq!(at(9_000, 1, 150), 50, "the wall clock was moved");
        assert_eq!(at(9_000, 2, 10), 8_000, "another boot");
        assert_eq!(at(500, 2, 10), 0, "it has not begun before it began");
    }
}
