//! `layby plugins`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    exit::{Exit, Failure},
    out::{Out, table},
    replay::rehearse,
    store,
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
    /// Rehearse an upgrade: replay the tasks under way against a new build, and compare what it lists
    Check(rehearse::Args),
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
    if let Some(What::Check(args)) = &args.what {
        return rehearse::run(args, &config, out);
    }
    let rows = store::block_on(async {
        let store = store::open(&config).await?;
        let rows = store.plugins().await;
        store.close().await;
        Ok(rows?)
    })?;
    if out.json {
        out.json(&json!({"plugins": rows.iter().map(to_json).collect::<Vec<_>>()}))?;
    } else if rows.is_empty() {
        out.text("No plugin is known yet: put NAME.wasm into the plugin folder of a running `layby serve`.")?;
    } else {
        out.text(&text(&rows))?;
    }
    Ok(Exit::Ok)
}

/// The component that serves; none where no version does.
fn serving(row: &PluginRow) -> Option<Digest> {
    row.digest.filter(|_| !row.listed.is_empty())
}

fn refusal(row: &PluginRow) -> Option<Refusal> {
    row.refusal.as_deref().and_then(|text| serde_json::from_str(text).ok())
}

fn state(row: &PluginRow) -> &'static str {
    match (serving(row), row.without_grants, row.refusal.is_some()) {
        (None, _, _) => "refused",
        (Some(_), true, _) => "serving without grants",
        (Some(_), false, true) => "serving, newer refused",
        (Some(_), false, false) => "serving",
    }
}

fn to_json(row: &PluginRow) -> Value {
    json!({
        "name": row.name,
        "state": state(row),
        "digest": serving(row).map(|d| d.to_string()),
        "withoutGrants": row.without_grants,
        "tools": row.tools,
        "prompts": row.prompts,
        "resources": row.resources,
        "templates": row.templates,
        "adoptedAt": serving(row).map(|_| row.adopted_at.rfc3339()),
        "refusal": refusal(row).map(|r| json!({
            "code": r.code, "reason": r.reason, "advice": r.advice, "digest": r.digest, "at": r.at.rfc3339(),
        })),
    })
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

fn text(rows: &[PluginRow]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let digest = serving(row).map_or_else(|| "-".to_owned(), |d| d.short());
            let [prompts, resources, templates] =
                [&row.prompts, &row.resources, &row.templates].map(|names| names.len().to_string());
            let tools = some(&row.tools);
            vec![row.name.clone(), state(row).to_owned(), digest, prompts, resources, templates, tools]
        })
        .collect();
    let heads = ["PLUGIN", "STATE", "DIGEST", "PROMPTS", "RESOURCES", "TEMPLATES", "TOOLS"];
    let mut text = table(&heads, &cells);
    for row in rows {
        let name = neutral_line(&row.name);
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
