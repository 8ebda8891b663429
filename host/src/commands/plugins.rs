//! `layby plugins`.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    add,
    exit::{Exit, Failure},
    out::{Out, table},
    replay::rehearse,
    revoke, store,
};
use crate::{
    base::{Digest, neutral_line},
    config::Config,
    plugins::Refusal,
    store::PluginRow,
};

/// Options of `layby plugins`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Data folder of the server [default: data]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// PostgreSQL database of the servers, as postgres://USER@HOST/DATABASE [default: a file in the data folder]
    #[arg(long, value_name = "URL", global = true)]
    store: Option<String>,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Put a component into the plugin folder: a file, or by digest what an OCI registry has
    Add(add::Args),
    /// Rehearse an upgrade: replay the tasks under way against a new build, and compare what it lists
    Check(rehearse::Args),
    /// Stop a component everywhere: no host on the database runs it any more, and its tasks end
    Revoke(revoke::Args),
    /// List the components that are revoked
    Revoked,
}

/// Prints every plugin that the data folder knows.
///
/// # Errors
/// The store cannot be used.
pub(crate) fn run(args: &Args, mut config: Config, out: Out) -> Result<Exit, Failure> {
    if let Some(data) = &args.data {
        config.serve.data.clone_from(data);
    }
    if let Some(url) = &args.store {
        config.store.url.clone_from(url);
    }
    match &args.what {
        Some(What::Add(args)) => return add::run(args, &config, out),
        Some(What::Check(args)) => return rehearse::run(args, &config, out),
        Some(What::Revoke(args)) => return revoke::run(args, &config, out),
        Some(What::Revoked) => return revoke::list(&config, out),
        None => {}
    }
    let rows = store::block_on(async {
        let store = store::open(&config).await?;
        let (own, elsewhere) = (store.plugins().await, store.plugins_elsewhere().await);
        let revoked = store.revoked().await;
        store.close().await;
        let revoked: BTreeSet<Digest> = revoked?.into_iter().map(|revoked| revoked.digest).collect();
        let known = |replica, row: PluginRow| {
            let revoked = row.digest.is_some_and(|digest| revoked.contains(&digest));
            Known { replica, row, revoked }
        };
        let own = own?.into_iter().map(|row| known(None, row));
        let living = elsewhere?.into_iter().filter(|other| other.lives);
        let living = living.map(|other| known(Some(other.replica), other.row));
        Ok(own.chain(living).collect::<Vec<_>>())
    })?;
    if out.json {
        out.json(&json!({"plugins": rows.iter().map(Known::to_json).collect::<Vec<_>>()}))?;
    } else if rows.is_empty() {
        out.text("No plugin is known yet: put NAME.wasm into the plugin folder of a running `layby serve`.")?;
    } else {
        out.text(&text(&rows))?;
    }
    Ok(Exit::Ok)
}

/// A plugin, and whose.
struct Known {
    /// None for the replica of this data folder.
    replica: Option<Uuid>,
    row: PluginRow,
    /// The component in its row may not run any more.
    revoked: bool,
}

impl Known {
    /// The component that serves; none where no version does.
    fn serving(&self) -> Option<Digest> {
        self.row.digest.filter(|_| !self.row.listed.is_empty() && !self.revoked)
    }

    fn state(&self) -> &'static str {
        match (self.serving(), self.row.without_grants, self.row.refusal.is_some()) {
            (None, ..) if self.revoked => "revoked",
            (None, _, _) => "refused",
            (Some(_), true, _) => "serving without grants",
            (Some(_), false, true) => "serving, newer refused",
            (Some(_), false, false) => "serving",
        }
    }

    fn to_json(&self) -> Value {
        let row = &self.row;
        let mut json = json!({
            "name": row.name,
            "state": self.state(),
            "digest": self.serving().map(|d| d.to_string()),
            "withoutGrants": row.without_grants,
            "tools": row.tools,
            "prompts": row.prompts,
            "resources": row.resources,
            "templates": row.templates,
            "adoptedAt": self.serving().map(|_| row.adopted_at.rfc3339()),
            "refusal": refusal(row).map(|r| json!({
                "code": r.code, "reason": r.reason, "advice": r.advice, "digest": r.digest, "at": r.at.rfc3339(),
            })),
        });
        json["replica"] = self.replica.map(|replica| replica.to_string()).into();
        json
    }

    /// What people read: of a replica the start of its name, as of a digest.
    fn name(&self) -> String {
        let name = &self.row.name;
        match &self.replica {
            None => name.clone(),
            Some(replica) => format!("{name} on {}", &replica.simple().to_string()[..12]),
        }
    }
}

fn refusal(row: &PluginRow) -> Option<Refusal> {
    row.refusal.as_deref().and_then(|text| serde_json::from_str(text).ok())
}

/// The first few names, and how many more there are: a row stays a line.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown}, and {more} more"),
    }
}

fn text(all: &[Known]) -> String {
    let cells: Vec<Vec<String>> = all
        .iter()
        .map(|known| {
            let row = &known.row;
            let digest = known.serving().map_or_else(|| "-".to_owned(), |d| d.short());
            let [prompts, resources, templates] =
                [&row.prompts, &row.resources, &row.templates].map(|names| names.len().to_string());
            let tools = some(&row.tools);
            vec![known.name(), known.state().to_owned(), digest, prompts, resources, templates, tools]
        })
        .collect();
    let heads = ["PLUGIN", "STATE", "DIGEST", "PROMPTS", "RESOURCES", "TEMPLATES", "TOOLS"];
    let mut text = table(&heads, &cells);
    for known in all {
        let (name, row) = (neutral_line(&known.name()), &known.row);
        if let Some(r) = refusal(row) {
            let (reason, advice) = (neutral_line(&r.reason), neutral_line(&r.advice));
            let code = neutral_line(&r.code);
            text.push_str(&format!(
                "\n{name}: refused at {}: {reason} ({code})\n  {advice}\n",
                r.at.rfc3339()
            ));
        }
        if row.without_grants {
            text.push_str(&format!(
                "\n{name}: its bytes changed and its policy did not, so it serves without grants.\n  \
                 Review it, then write the policy file again, or pin its digest there.\n"
            ));
        }
    }
    text
}
