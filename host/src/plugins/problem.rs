//! Why a candidate does not serve, as a value: code, reason, advice.

use crate::{
    base::{Digest, UnixMillis, neutral_line},
    capabilities::Unfit,
    plugins::Refusal,
};

/// Longest reason, in characters: a compiler's message may quote pages.
const REASON: usize = 2000;

/// At most `max` characters of `text`, on one line and harmless in terminals and logs.
pub(super) fn neutral(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((cut, _)) => format!("{}…", neutral_line(&text[..cut])),
        None => neutral_line(text),
    }
}

/// The code of a component that is revoked.
pub(super) const REVOKED: &str = "plugin_revoked";
/// The code of a policy whose grants cannot be given.
pub(super) const BAD_GRANT: &str = "plugin_bad_grant";

/// A refusal without place and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Stable code, from `docs/errors.md`.
    pub code: &'static str,
    /// What was wrong; neutral text.
    pub reason: String,
    /// What to do.
    pub advice: &'static str,
}

impl Problem {
    fn new(code: &'static str, reason: impl AsRef<str>, advice: &'static str) -> Self {
        Self { code, reason: neutral(reason.as_ref(), REASON), advice }
    }

    pub(super) fn not_a_component(reason: impl AsRef<str>) -> Self {
        let advice =
            "build a component: target wasm32-wasip2, or `wasm-tools component new` on a core module";
        Self::new("plugin_not_a_component", reason, advice)
    }

    pub(super) fn wrong_world(reason: impl AsRef<str>) -> Self {
        let advice = "build it against the world `plugin` of wit/plugin.wit of this version of layby";
        Self::new("plugin_wrong_world", reason, advice)
    }

    /// Of a component without `layby:plugin/tools`.
    pub(super) fn bad_function(reason: impl AsRef<str>) -> Self {
        let advice = "export plain functions whose types JSON can say, or build it against the world `plugin` of \
                      wit/plugin.wit; docs/plugins/components.md has what is served";
        Self::new("plugin_bad_function", reason, advice)
    }

    pub(super) fn unfit(unfit: &Unfit) -> Self {
        match unfit {
            Unfit::World(reason) => Self::wrong_world(reason),
            Unfit::Function(reason) => Self::bad_function(reason),
        }
    }

    pub(super) fn bad_policy(reason: impl AsRef<str>) -> Self {
        let advice = "correct the policy file; docs/configuration.md lists every key";
        Self::new("plugin_bad_policy", reason, advice)
    }

    pub(super) fn bad_tool_name(reason: impl AsRef<str>) -> Self {
        let advice =
            "give each tool a name of its own of 1 to 128 of A-Z a-z 0-9 _ - . (with the policy's prefix)";
        Self::new("plugin_bad_tool_name", reason, advice)
    }

    /// A name that `prefix` can settle.
    pub(super) fn name_taken(reason: impl AsRef<str>) -> Self {
        let advice = "set `prefix` in this plugin's policy file, or remove the other plugin";
        Self::new("plugin_name_taken", reason, advice)
    }

    /// A URI or URI template: no prefix helps.
    pub(super) fn uri_taken(reason: impl AsRef<str>) -> Self {
        let advice = "remove one of the two plugins, or have its author choose another URI";
        Self::new("plugin_name_taken", reason, advice)
    }

    pub(super) fn bad_schema(reason: impl AsRef<str>) -> Self {
        let advice = "correct the tool's schema: JSON Schema 2020-12, references within it only, type object for arguments";
        Self::new("plugin_bad_schema", reason, advice)
    }

    pub(super) fn bad_tool(reason: impl AsRef<str>) -> Self {
        let advice =
            "correct what list-tools answers: `extra` holds `icons` and `_meta` alone, as MCP defines them";
        Self::new("plugin_bad_tool", reason, advice)
    }

    pub(super) fn bad_prompt(reason: impl AsRef<str>) -> Self {
        let advice = "correct what list-prompts answers: names as for tools, each argument once, `extra` with `icons` and `_meta` alone";
        Self::new("plugin_bad_prompt", reason, advice)
    }

    pub(super) fn bad_resource(reason: impl AsRef<str>) -> Self {
        let advice = "correct what list-resources and list-templates answer: absolute URIs, templates of RFC 6570, \
                      a name each, `extra` with `annotations`, `icons` and `_meta` alone";
        Self::new("plugin_bad_resource", reason, advice)
    }

    pub(super) fn digest_pin(reason: impl AsRef<str>) -> Self {
        let advice =
            "put the pinned component back, or change `sha256` in the policy file if you trust this one";
        Self::new("plugin_digest_pin", reason, advice)
    }

    pub(super) fn unsigned(reason: impl AsRef<str>) -> Self {
        let advice = "sign it with the secret key of one of `catalog.signers`: `minisign -S -m NAME.wasm` makes NAME.wasm.minisig, \
                      which belongs beside it";
        Self::new("plugin_unsigned", reason, advice)
    }

    pub(super) fn bad_signature(reason: impl AsRef<str>) -> Self {
        let advice = "put the component back that was signed, or sign this one if you trust it: `minisign -S -m NAME.wasm` with the \
                      secret key of one of `catalog.signers`; to trust another signer, add its public key there and start again";
        Self::new("plugin_bad_signature", reason, advice)
    }

    pub(super) fn revoked(reason: impl AsRef<str>) -> Self {
        let advice = "put another version into the plugin folder; `layby plugins revoke --undo DIGEST` lets this one run again";
        Self::new(REVOKED, reason, advice)
    }

    pub(super) fn list_tools_failed(reason: impl AsRef<str>) -> Self {
        let advice = "listing runs with nothing granted and little fuel, memory and time: only list there";
        Self::new("plugin_list_tools_failed", reason, advice)
    }

    /// A wall clock says nothing certain about a plugin: a busy machine makes every one slow.
    pub(super) fn list_too_slow(reason: impl AsRef<str>) -> Self {
        let advice = "it is tried again every few seconds; where the machine is not busy, the plugin waits for something";
        Self::new("plugin_list_slow", reason, advice)
    }

    pub(super) fn bad_grant(reason: impl AsRef<str>) -> Self {
        let advice =
            "correct [grants] in the policy file, or make what it names; it is tried again every few seconds";
        Self::new(BAD_GRANT, reason, advice)
    }

    pub(super) fn too_large(reason: impl AsRef<str>) -> Self {
        let advice = "make it smaller, or raise the limit named, under [catalog] in layby.toml";
        Self::new("plugin_too_large", reason, advice)
    }

    pub(super) fn unreadable(reason: impl AsRef<str>) -> Self {
        let advice = "make it a regular file that layby may read, with a plain name such as my-tool.wasm";
        Self::new("plugin_unreadable", reason, advice)
    }

    /// True where the cause lies outside the plugin's own files, so that trying again may help.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self.code,
            "plugin_bad_grant" | "plugin_list_slow" | "plugin_name_taken" | "plugin_unreadable"
        )
    }

    /// With place and time.
    pub(super) fn refusal(&self, digest: Option<Digest>, at: UnixMillis) -> Refusal {
        Refusal {
            code: self.code.to_owned(),
            reason: self.reason.clone(),
            advice: self.advice.to_owned(),
            digest: digest.map(|d| d.to_string()),
            at,
        }
    }
}
