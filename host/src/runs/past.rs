//! What a run has behind it: how it began, and what it has done so far.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Client,
    target::{Kind, Work},
};
use crate::{
    base::{Fault, UnixMillis, boottime_ns},
    capabilities::{Began, Request, journal_key},
    config::{CallPolicy, EnvValue, Grants, Limits},
    journal::{Header, Journal, Kept, Start},
    plugins::Plugin,
    store::{Closed, Sealed, Vault, os_boot_id},
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
    /// Values of the environment and configuration, which are not among the grants then. None where there are none, and
    /// in what was exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
}

/// What is sealed of the grants. Names of secrets are not: their values are nowhere in the database.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Values {
    env: BTreeMap<String, String>,
    config: BTreeMap<String, String>,
}

/// Why the settings of a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// They are damaged.
    #[error("its settings cannot be read: {0}")]
    Damaged(String),
    /// A part of them is sealed under another key.
    #[error("the environment that it began with: {0}")]
    Closed(Closed),
    /// A part of them is sealed, and there is no key at all.
    #[error("the environment that it began with is sealed, and there is no key here")]
    NoKey,
}

impl Unread {
    fn damaged(e: &serde_json::Error) -> Self {
        Self::Damaged(e.to_string())
    }
}

impl Settings {
    /// Those in a journal's `header`, opened with the `vault` of the hosts that wrote it.
    ///
    /// # Errors
    /// See [`Unread`].
    pub fn read(header: &Header, vault: Option<&Vault>) -> Result<Self, Unread> {
        let mut settings: Self = serde_json::from_str(&header.policy).map_err(|e| Unread::damaged(&e))?;
        let Some(sealed) = settings.sealed.take() else { return Ok(settings) };
        let vault = vault.ok_or(Unread::NoKey)?;
        let text = vault.unseal(Sealed::Settings, &header.seed, &sealed).map_err(|why| match why {
            Closed::Damaged => Unread::Damaged(why.to_string()),
            Closed::OtherKey { .. } => Unread::Closed(why),
        })?;
        let Values { env, config } = serde_json::from_slice(&text).map_err(|e| Unread::damaged(&e))?;
        settings.grants.env.extend(env.into_iter().map(|(name, value)| (name, EnvValue::Plain(value))));
        settings.grants.config.extend(config);
        Ok(settings)
    }

    /// Those in a journal's `header`, without what is sealed of them, which needs no key.
    ///
    /// # Errors
    /// [`Unread::Damaged`].
    pub fn read_without_values(header: &Header) -> Result<Self, Unread> {
        let settings: Self = serde_json::from_str(&header.policy).map_err(|e| Unread::damaged(&e))?;
        Ok(Self { sealed: None, ..settings })
    }

    /// As a header keeps them: with all values sealed for the run of this `seed`.
    fn written(mut self, vault: &Vault, seed: &[u8; 32]) -> String {
        let mut values = Values { config: std::mem::take(&mut self.grants.config), ..Values::default() };
        self.grants.env.retain(|name, value| match value {
            EnvValue::Plain(text) => {
                values.env.insert(name.clone(), std::mem::take(text));
                false
            }
            EnvValue::Secret { .. } | EnvValue::SecretFile { .. } => true,
        });
        if values != Values::default() {
            // Strings always have a JSON text, as the rest has.
            let text = serde_json::to_vec(&values).unwrap_or_default();
            self.sealed = Some(vault.seal(Sealed::Settings, seed, &text));
        }
        serde_json::to_string(&self).unwrap_or_default()
    }

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
    pub(super) fn header(
        &self,
        work: &Work,
        request: &Request,
        client: Client,
        wall: UnixMillis,
        vault: &Vault,
    ) -> Header {
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
            sealed: None,
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
            policy: settings.written(vault, &self.seed),
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn settings() -> Settings {
        let env = [
            ("PLACE".to_owned(), EnvValue::Plain("a-sealed-place".into())),
            ("TOKEN".to_owned(), EnvValue::Secret { secret: "A_NAME".into() }),
        ];
        let config = [("units".to_owned(), "sealed-units".to_owned())];
        let grants = Grants { env: env.into(), config: config.into(), ..Grants::default() };
        Settings {
            limits: Limits::default(),
            call: CallPolicy::default(),
            grants,
            kind: Kind::Tool,
            sealed: None,
        }
    }

    fn header(seed: [u8; 32], policy: String) -> Header {
        let start = Start { wall: 0, boot: [0; 16], boottime: 0 };
        let (tool, arguments) = (String::new(), String::new());
        Header { digest: [0; 32], semantics: 0, code: 0, seed, start, tool, arguments, client: 0, policy }
    }

    #[test]
    fn values_are_in_a_header_under_seal_only() {
        let (vault, other) = (Vault::of([1; 32], []), Vault::of([2; 32], []));
        let kept = header([7; 32], settings().written(&vault, &[7; 32]));
        assert!(kept.policy.contains("A_NAME") && !kept.policy.contains("sealed-"), "{}", kept.policy);
        assert_eq!(Settings::read(&kept, Some(&vault)).unwrap(), settings());
        assert!(matches!(Settings::read(&kept, None), Err(Unread::NoKey)));
        assert!(matches!(Settings::read(&kept, Some(&other)), Err(Unread::Closed(_))));
        let another = header([8; 32], kept.policy.clone());
        assert!(matches!(Settings::read(&another, Some(&vault)), Err(Unread::Damaged(_))), "another run's");
        let bare = Settings::read_without_values(&kept).unwrap();
        let text = serde_json::to_string(&bare).unwrap();
        assert!(!text.contains("PLACE") && !text.contains(r#""sealed""#), "{text}");
        assert_eq!(Settings::read(&header([7; 32], text), None).unwrap(), bare);
    }

    #[test]
    fn a_header_without_values_or_from_before_needs_no_key() {
        let plain = serde_json::to_string(&settings()).unwrap();
        assert_eq!(Settings::read(&header([7; 32], plain), None).unwrap(), settings());
        let mut none = settings();
        none.grants.config.clear();
        none.grants.env.remove("PLACE");
        let kept = none.clone().written(&Vault::of([1; 32], []), &[7; 32]);
        assert_eq!(Settings::read(&header([7; 32], kept), None).unwrap(), none);
    }

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
