//! Finds duplicate files in a granted folder, and deletes the surplus once the caller has approved
//! a form that lists them.

mod find;
mod tidy;

use std::path::PathBuf;

use layby_plugin::{Structured, prelude::*};

use find::{Group, Scan};
use tidy::Outcome;

/// The folder that the policy `tidy.toml` grants.
const FOLDER: &str = "/folder";

/// Where to look.
#[derive(Deserialize, JsonSchema)]
struct Where {
    /// A folder inside the granted one, such as `photos/2024`; all of it by default.
    #[serde(default)]
    path: String,
    /// Files smaller than this are left out, in bytes. Empty files always are.
    #[serde(default)]
    min_size: u64,
}

impl Where {
    fn scan(&self, call: &Call) -> Result<Scan> {
        find::scan(&within(FOLDER, &self.path)?, self.min_size, call)
    }
}

/// A path inside the root; the host holds the line too, but its error would say less.
fn within(root: &str, path: &str) -> Result<PathBuf> {
    if path.split('/').any(|part| part == "..") {
        return Err(Error::failed(format!("`{path}`: a path with `..` leaves the granted folder")));
    }
    Ok(PathBuf::from(root).join(path.trim_start_matches('/')))
}

/// What was found.
#[derive(Serialize, JsonSchema)]
struct Found {
    /// How many files were looked at.
    files: usize,
    /// Files of equal contents, the largest waste first; at most 100 groups.
    groups: Vec<Group>,
    /// Bytes that all but one file of each group take, also of groups that are not listed.
    surplus_bytes: u64,
    /// Groups that are not listed.
    more_groups: usize,
    /// Files and folders that could not be read, and why; at most 20.
    unreadable: Vec<String>,
}

/// Groups in a result.
const GROUPS_SHOWN: usize = 100;

/// Finds files with equal contents in the granted folder. Changes nothing.
#[tool(title = "Find duplicate files", read_only, idempotent, open_world = false)]
fn find_duplicates(args: Where, call: &Call) -> Result<Structured<Found>> {
    let mut scan = args.scan(call)?;
    let text = scan.summary();
    let surplus_bytes = scan.surplus_bytes();
    let more_groups = scan.groups.len().saturating_sub(GROUPS_SHOWN);
    scan.groups.truncate(GROUPS_SHOWN);
    let value = Found {
        files: scan.files,
        groups: scan.groups,
        surplus_bytes,
        more_groups,
        unreadable: scan.unreadable,
    };
    Ok(Structured { text, value })
}

/// Finds files with equal contents in the granted folder, lists them to the caller in a form, and
/// deletes the surplus if the caller approves. One file of each group always stays.
#[tool(title = "Delete duplicate files", destructive, idempotent, open_world = false)]
fn tidy_folder(args: Where, call: &Call) -> Result<Structured<Outcome>> {
    let scan = args.scan(call)?;
    let outcome = tidy::tidy(scan, call)?;
    Ok(Structured { text: outcome.text(), value: outcome })
}

layby_plugin::plugin!(find_duplicates, tidy_folder);
