//! From the bytes of a candidate to a version that may serve: everything that a refusal can stop.
//! Blocking throughout; runs on a blocking thread, one call per candidate.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{runtime::Handle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Plugin, compile,
    declare::{self, Built, Declared},
    keep::Keep,
    problem::{Problem, neutral},
    scan::{self, Pair, Read},
    sealed, swap,
};
use crate::{
    base::{Digest, Signed, Signers, read_file},
    capabilities::{Abort, Granted, Linked, Listing, Nobody, Prepared, Setup, is_secret, is_written, list},
    config::{CatalogConfig, Config, EnvValue, Grants, Limits, Policy, load_policy},
    engine::Engine,
    store::{PluginRow, Sealed, Store, Vault},
};

/// Longest line of a listing plugin's log, in characters.
const LOG_LINE: usize = 500;

/// All that checking needs; shared by the jobs.
pub(super) struct Checker {
    pub(super) config: Arc<Config>,
    pub(super) engine: Arc<Engine>,
    pub(super) linked: Arc<Linked>,
    pub(super) keep: Keep,
    /// None where components need no signature.
    pub(super) signers: Option<Signers>,
    pub(super) store: Arc<dyn Store>,
    pub(super) vault: Arc<Vault>,
    /// Turned on at the end: jobs stop between two steps.
    pub(super) cancel: CancellationToken,
    pub(super) runtime: Handle,
    /// Room to compile. Held for that alone, so that a plugin that spins while it lists keeps no other waiting.
    pub(super) compiling: tokio::sync::Semaphore,
}

/// A version that may serve, but for the question whether its names are free.
pub(super) struct Version {
    pub(super) digest: Digest,
    /// The policy file's text, as its row has it.
    pub(super) text: String,
    pub(super) policy: Policy,
    pub(super) granted: Arc<Granted>,
    /// The policy's grants were given (also where it has none).
    pub(super) with_grants: bool,
    pub(super) prepared: Prepared,
    pub(super) declared: Declared,
    pub(super) built: Built,
}

/// What is known of a name.
struct Past<'a> {
    /// On this replica.
    row: Option<&'a PluginRow>,
    /// On others.
    elsewhere: Vec<PluginRow>,
}

/// How one check ended.
pub(super) enum Outcome {
    Ready(Box<Version>),
    /// The pair is what serves already.
    Same,
    /// The files changed while they were read.
    Changed,
    Refused(Problem, Option<Digest>),
    /// Something wrong on our side, which says nothing about the plugin: try again.
    Failed(String),
}

/// Why a step did not succeed.
#[derive(Debug)]
pub enum Stop {
    /// The plugin is to blame.
    Refused(Problem),
    /// Something on our side, which says nothing about the plugin: the reason.
    Failed(String),
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl Checker {
    /// Checks the files of `name` as they were seen. `row` is the name's past; `serves` says whether
    /// the version in it is served now.
    pub(super) fn candidate(
        &self,
        name: &str,
        seen: &Pair,
        row: Option<&PluginRow>,
        serves: bool,
    ) -> Outcome {
        let read = scan::read(&self.config.serve.plugins, name, seen, &self.config.catalog);
        let (bytes, text, signature) = match read {
            Read::Changed => return Outcome::Changed,
            Read::Refused(problem) => return Outcome::Refused(problem, None),
            Read::Done { bytes, text, signature } => (bytes, text, signature),
        };
        let digest = Digest::of(&bytes);
        let signed = match self.signed(&bytes, signature.as_deref()) {
            Ok(signed) => signed,
            Err(problem) => return Outcome::Refused(problem, Some(digest)),
        };
        // A restart asks for it, and the file in the folder may be another's by then.
        if let (Some(_), Some(signature)) = (&signed, signature)
            && let Err(e) = self.keep.put_signature(digest, &signature)
        {
            return Outcome::Failed(format!("its signature cannot be kept under the data folder: {e}"));
        }
        match self.may_run(digest) {
            Ok(()) => {}
            Err(Stop::Refused(problem)) => return Outcome::Refused(problem, Some(digest)),
            Err(Stop::Failed(reason)) => return Outcome::Failed(reason),
        }
        let elsewhere = match self.runtime.block_on(self.store.plugins_elsewhere()) {
            Ok(all) => all,
            Err(e) => return Outcome::Failed(format!("what other replicas have cannot be read: {e}")),
        };
        let elsewhere = elsewhere.into_iter().map(|other| other.row).filter(|row| row.name == name);
        let past = Past { row, elsewhere: elsewhere.collect() };
        if serves && self.is_same(name, &past, digest, &text) {
            return Outcome::Same;
        }
        if let Some(Signed { key, comment }) = signed {
            let comment = neutral(&comment, LOG_LINE);
            tracing::info!(plugin = name, digest = %digest.short(), %key, %comment, "has a good signature");
        }
        match self.version(name, digest, &bytes, text, &past) {
            Ok(version) => Outcome::Ready(Box::new(version)),
            Err(Stop::Refused(problem)) => Outcome::Refused(problem, Some(digest)),
            Err(Stop::Failed(reason)) => Outcome::Failed(reason),
        }
    }

    /// Whose signature of `bytes` there is, before anything is done with them; none where signatures do not count.
    fn signed(&self, bytes: &[u8], signature: Option<&[u8]>) -> Result<Option<Signed>, Problem> {
        let Some(signers) = &self.signers else { return Ok(None) };
        let signature = signature.ok_or_else(|| {
            Problem::unsigned(
                "the component has no signature, and `catalog.signers` in layby.toml asks for one",
            )
        })?;
        let signed = signers.check(bytes, signature);
        signed.map(Some).map_err(|why| Problem::bad_signature(format!("the signature does not count: {why}")))
    }

    /// The same for kept bytes, whose signature was kept with them.
    fn still_signed(&self, digest: Digest, bytes: &[u8]) -> Result<(), Stop> {
        if self.signers.is_none() {
            return Ok(());
        }
        let signature = self
            .keep
            .signature(digest)
            .map_err(|e| Stop::Failed(format!("its kept signature cannot be read: {e}")))?;
        self.signed(bytes, signature.as_deref())?;
        Ok(())
    }

    /// True where what serves is this pair, with the grants that it would get now.
    fn is_same(&self, name: &str, past: &Past<'_>, digest: Digest, text: &str) -> bool {
        let Some(row) = past.row else { return false };
        // A host that knew tools only has never asked for its other lists.
        if row.digest != Some(digest) || Declared::is_tools_only(&row.listed) {
            return false;
        }
        let Ok(policy) = self.policy(name, text) else { return false };
        // The same text sealed otherwise, or not yet, is written again too.
        if row.policy != sealed::kept(&self.vault, name, text, &policy) {
            return false;
        }
        // `trust-replacements` may have been turned on or off since.
        let withheld = !self.gets_grants(past, digest, text, &policy);
        (withheld && policy.grants != Grants::default()) == row.without_grants
    }

    fn gets_grants(&self, past: &Past<'_>, digest: Digest, text: &str, policy: &Policy) -> bool {
        let trust = self.config.trust_replacements;
        let opened = |row: &PluginRow| self.opened(row, text);
        let (row, elsewhere) = (past.row.map(opened), past.elsewhere.iter().map(opened).collect::<Vec<_>>());
        swap::gets_grants(row.as_ref(), &elsewhere, digest, text, policy, trust)
    }

    /// A row with its policy's text. One that cannot be read here counts as `text`: nobody can say that the operator has
    /// written the policy anew since, and so it gives no grants to another component.
    fn opened(&self, row: &PluginRow, text: &str) -> PluginRow {
        let policy = self.text_of(row).unwrap_or_else(|_| text.to_owned());
        PluginRow { policy, ..row.clone() }
    }

    /// The text of a row's policy. Where it stays closed, that is logged.
    pub(super) fn text_of(&self, row: &PluginRow) -> Result<String, String> {
        sealed::text(&self.vault, row).map_err(|closed| {
            let whose = format!("the policy that the plugin {} had", row.name);
            self.vault.tell(Sealed::Policy, &whose, &closed);
            format!("the policy that it had: {closed}")
        })
    }

    fn version(
        &self,
        name: &str,
        digest: Digest,
        bytes: &[u8],
        text: String,
        past: &Past<'_>,
    ) -> Result<Version, Stop> {
        let policy = self.policy(name, &text)?;
        if let Some(pin) = policy.sha256.filter(|pin| *pin != digest) {
            return Err(
                Problem::digest_pin(format!("the component is {digest}, the policy pins {pin}")).into()
            );
        }
        let with_grants = self.gets_grants(past, digest, &text, &policy);
        let granted = self.grants(name, &policy, with_grants)?;
        let prepared = self.prepare(name, digest, bytes)?;
        let declared = self.list(name, digest, &prepared)?;
        let built = declare::build(&declared, &policy, &self.config.catalog, true)?;
        self.keep
            .put(digest, bytes)
            .map_err(|e| Stop::Failed(format!("its bytes cannot be kept under the data folder: {e}")))?;
        self.share(digest, bytes)?;
        let text = sealed::kept(&self.vault, name, &text, &policy);
        Ok(Version { digest, text, policy, granted, with_grants, prepared, declared, built })
    }

    /// Puts a component where hosts with other data folders find it, before any row names it. Blocking.
    fn share(&self, digest: Digest, bytes: &[u8]) -> Result<(), Stop> {
        if !self.store.keeps_components() {
            return Ok(());
        }
        let put = self.store.put_component(digest, bytes.to_vec());
        self.runtime
            .block_on(put)
            .map_err(|e| Stop::Failed(format!("its bytes cannot be kept in the database: {e}")))
    }

    /// The kept bytes of a component: this data folder's, or those that another host has shared. Blocking.
    pub(super) fn kept(&self, digest: Digest) -> Result<Vec<u8>, Stop> {
        let error = match self.keep.get(digest, self.config.catalog.max_component) {
            Ok(bytes) => return Ok(bytes),
            Err(e) => Stop::Failed(format!("its kept bytes cannot be read: {e}")),
        };
        let Ok(Some(bytes)) = self.runtime.block_on(self.store.component(digest)) else { return Err(error) };
        if let Err(e) = self.keep.put(digest, &bytes) {
            tracing::warn!(digest = %digest.short(), "shared bytes are not kept under the data folder: {e}");
        }
        Ok(bytes)
    }

    /// The version that served last, from its row and its kept bytes. Lists nothing.
    pub(super) fn restore(&self, row: &PluginRow, digest: Digest) -> Outcome {
        match self.restored(row, digest) {
            Ok(version) => Outcome::Ready(Box::new(version)),
            Err(Stop::Refused(problem)) => Outcome::Refused(problem, Some(digest)),
            Err(Stop::Failed(reason)) => Outcome::Failed(reason),
        }
    }

    fn restored(&self, row: &PluginRow, digest: Digest) -> Result<Version, Stop> {
        self.may_run(digest)?;
        let policy = self.policy(&row.name, &self.text_of(row).map_err(Stop::Failed)?)?;
        let declared = Declared::from_row(&row.listed)
            .map_err(|e| Stop::Failed(format!("its lists in the store cannot be read: {e}")))?;
        let with_grants = !row.without_grants;
        let granted = self.grants(&row.name, &policy, with_grants)?;
        let bytes = self.kept(digest)?;
        self.still_signed(digest, &bytes)?;
        let prepared = self.prepare(&row.name, digest, &bytes)?;
        let built = declare::build(&declared, &policy, &self.config.catalog, false)?;
        Ok(Version {
            digest,
            text: row.policy.clone(),
            policy,
            granted,
            with_grants,
            prepared,
            declared,
            built,
        })
    }

    pub(super) fn policy(&self, name: &str, text: &str) -> Result<Policy, Problem> {
        let folder = &self.config.serve.plugins;
        load_policy(text, &scan::policy_path(folder, name), folder, &self.config)
            .map_err(|e| Problem::bad_policy(e.to_string()))
    }

    fn grants(&self, name: &str, policy: &Policy, given: bool) -> Result<Arc<Granted>, Problem> {
        if !given {
            return Ok(Arc::new(Granted::default()));
        }
        let mut own = self.own(&policy.grants);
        let others = self.others(name);
        own.extend(others.iter().flat_map(|theirs| secrets(&theirs.grants)).cloned());
        let written = others.iter().flat_map(|theirs| &theirs.grants.files).filter(|grant| grant.write);
        written.for_each(|grant| is_written(&grant.host, &own));
        // A plugin that was given a folder before is not given this.
        secrets(&policy.grants).for_each(|file| is_secret(file));
        Granted::resolve(&policy.grants, &own).map_err(Problem::bad_grant)
    }

    /// What this host lives by, and the secrets of one plugin: no folder may have to do with it.
    pub(super) fn own(&self, grants: &Grants) -> Vec<PathBuf> {
        let folders = [&self.config.serve.data, &self.config.serve.plugins].map(|p| absolute(p));
        let files = [&self.config.auth.tokens_file, &self.config.store.seal_key, &self.config.serve.tls_key];
        let files = files.into_iter().filter(|path| !path.as_os_str().is_empty()).map(|p| absolute(p));
        let own = folders.into_iter().chain(self.config.file.clone()).chain(files);
        own.chain(secrets(grants).cloned()).collect()
    }

    /// The policies of all other plugins in the folder, as far as they can be read: whatever is wrong with one is its own plugin's
    /// refusal.
    fn others(&self, name: &str) -> Vec<Policy> {
        let folder = &self.config.serve.plugins;
        let Ok(found) = scan::scan(folder, false) else { return Vec::new() };
        let read = |other: &String| {
            let text = read_file(&scan::policy_path(folder, other), self.config.catalog.max_policy).ok()?;
            self.policy(other, &String::from_utf8(text).ok()?).ok()
        };
        found.policies.iter().filter(|other| *other != name).filter_map(read).collect()
    }

    pub(super) fn prepare(&self, name: &str, digest: Digest, bytes: &[u8]) -> Result<Prepared, Stop> {
        // What is compiled already waits for nobody's compilation.
        let permit = if self.engine.is_compiled(digest) {
            None
        } else {
            compile::bounded(bytes, &self.config.catalog)?;
            Some(self.runtime.block_on(self.compiling.acquire()))
        };
        let component = compile::uncounted(&self.engine, digest, bytes)?;
        drop(permit);
        self.go_on()?;
        let prepared = self.linked.prepare(&component, bytes).map_err(|e| Problem::unfit(&e))?;
        remark(name, &prepared);
        self.go_on()?;
        Ok(prepared)
    }

    fn go_on(&self) -> Result<(), Stop> {
        if self.cancel.is_cancelled() { Err(Stop::Failed("the host is ending".to_owned())) } else { Ok(()) }
    }

    /// What it lists now. On this blocking thread, so that a plugin that computes while it lists keeps none
    /// of the threads that answer requests.
    fn list(&self, name: &str, digest: Digest, prepared: &Prepared) -> Result<Declared, Stop> {
        let slice = self.config.host.fuel_slice;
        let listed = self.runtime.block_on(async {
            tokio::select! {
                () = self.cancel.cancelled() => Err(Stop::Failed("the host is ending".to_owned())),
                listed = listing(name, digest, prepared, &self.config.catalog, slice) => listed,
            }
        });
        listed.map(Declared::from)
    }

    /// A listing on demand: what `plugin` lists now, checked; none where that is `known` already.
    pub(super) fn relist(
        &self,
        plugin: &Plugin,
        known: &Declared,
    ) -> Result<Option<(Declared, Built)>, Stop> {
        let declared = self.list(&plugin.name, plugin.digest, &plugin.prepared)?;
        if declared == *known {
            return Ok(None);
        }
        let built = declare::build(&declared, &plugin.policy, &self.config.catalog, false)?;
        Ok(Some((declared, built)))
    }
}

/// Logs what is odd about a component that is served all the same.
pub(super) fn remark(name: &str, prepared: &Prepared) {
    for remark in prepared.remarks() {
        tracing::warn!(plugin = name, "served, but {}", neutral(remark, LOG_LINE));
    }
}

/// Everything that a plugin lists, with nothing granted and the small budget of `bounds`. The seed is the
/// digest, so that the same bytes list the same.
pub(super) async fn listing(
    name: &str,
    digest: Digest,
    prepared: &Prepared,
    bounds: &CatalogConfig,
    fuel_slice: u64,
) -> Result<Listing, Stop> {
    let limits = Limits {
        fuel: bounds.list_fuel,
        memory: bounds.list_memory,
        active_time: bounds.list_time,
        ..Limits::default()
    };
    let plugin = name.to_owned();
    let nobody = Nobody::new(move |message: &str| {
        let text = neutral(message, LOG_LINE);
        tracing::debug!(target: "layby::plugin", plugin = %plugin, "while listing: {text}");
    });
    let setup = Setup::fresh(limits, Arc::default(), Arc::new(nobody), digest.0, fuel_slice);
    let failed = |reason: String| Err(Problem::list_tools_failed(format!("listing {reason}")).into());
    match timeout(Duration::from_millis(bounds.list_time.0), list(prepared, setup)).await {
        Ok(Ok(listing)) => Ok(listing),
        Ok(Err(Abort::Host(reason))) => Err(Stop::Failed(format!("listing did not run: {reason}"))),
        // A listing records, and never replays.
        Ok(Err(Abort::Mismatch(mismatch))) => Err(Stop::Failed(mismatch.to_string())),
        Ok(Err(Abort::FileChanged { path })) => Err(Stop::Failed(format!("it had read {path}"))),
        Ok(Err(Abort::Unknown(unknown))) => Err(Stop::Failed(format!("it {}", unknown.deed))),
        Ok(Err(Abort::Trap(text))) => {
            // Without the backtrace: it says nothing to who reads a list of plugins.
            let short: Vec<&str> =
                text.lines().take_while(|line| !line.starts_with("error while executing")).collect();
            failed(format!("failed: {}", short.join("; ")))
        }
        Ok(Err(Abort::Limit { name, value, .. })) => {
            failed(format!("went over its {name}, which is {value}"))
        }
        Err(_) => {
            Err(Problem::list_too_slow(format!("listing took longer than {}", bounds.list_time)).into())
        }
    }
}

/// The files that hold secrets of a plugin's.
fn secrets(grants: &Grants) -> impl Iterator<Item = &PathBuf> {
    grants.env.values().filter_map(|value| match value {
        EnvValue::SecretFile { secret_file } => Some(secret_file),
        _ => None,
    })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
