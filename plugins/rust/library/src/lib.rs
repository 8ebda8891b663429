//! Indexes a granted folder of text files, finds passages in it, and gives its documents as resources.
//!
//! Nothing is kept between two calls but files: `index_folder` writes its index to a second granted
//! folder, and `search_library` reads it there; without one it reads all texts anew.

mod codec;
mod documents;
mod index;
mod search;
mod text;
mod walk;

use std::path::Path;

use layby_plugin::{Described, Structured, prelude::*, text_contents, types::EmbeddedResource};

use index::Index;
use search::Passage;

/// The texts, by the policy `library.toml`.
const LIBRARY: &str = "/library";
/// The index.
const INDEX: &str = "/index/library.idx";

/// What to index.
#[derive(Deserialize, JsonSchema)]
struct Folder {
    /// A folder inside the granted one; all of it by default. The index is of this folder only.
    #[serde(default)]
    path: String,
}

/// What the index holds.
#[derive(Debug, Serialize, JsonSchema)]
struct Indexed {
    files: usize,
    passages: usize,
    /// Different words.
    terms: usize,
    /// Bytes of text.
    bytes: u64,
    /// Files that are not in the index.
    skipped: usize,
    /// Some of those, and why; at most 20.
    skipped_for: Vec<String>,
}

/// Reads all text files of the granted folder and writes an index of their passages, which makes
/// searches fast. Call it again when the files have changed.
#[tool(title = "Index the library", destructive = false, idempotent, open_world = false)]
fn index_folder(args: Folder, call: &Call) -> Result<Structured<Indexed>> {
    let found = walk::walk(Path::new(LIBRARY), &args.path, call)?;
    let (index, indexed) = index::build(Path::new(LIBRARY), found, call)?;
    call.check()?;
    index::save(&index, Path::new(INDEX), call)?;
    let text = format!(
        "Indexed {} files: {} passages, {} words. Skipped {}.",
        indexed.files, indexed.passages, indexed.terms, indexed.skipped
    );
    Ok(Structured { text, value: indexed })
}

/// What to look for.
#[derive(Deserialize, JsonSchema)]
struct Query {
    /// Words, in any order; the more of them a passage has, and the rarer, the better.
    #[schemars(length(min = 1, max = 1000))]
    query: String,
    /// How many passages to return.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 20))]
    limit: usize,
}

fn five() -> usize {
    5
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// The best passages, best first.
    passages: Vec<Passage>,
    /// How many passages have any of the words.
    matches: usize,
    /// Files that were searched.
    files: usize,
    /// True if there was no index and all texts were read for this search: `index_folder` makes one.
    without_index: bool,
}

/// Finds the passages of the library that fit a query best, with file and line.
#[tool(title = "Search the library", read_only, idempotent, open_world = false)]
fn search_library(args: Query, call: &Call) -> Result<Structured<Found>> {
    let root = Path::new(LIBRARY);
    let (index, without_index) = opened(root, call)?;
    let found = search(root, &index, &args, without_index, call)?;
    Ok(Structured { text: words(&found), value: found })
}

/// The index, and whether it had to be made for this call.
fn opened(root: &Path, call: &Call) -> Result<(Index, bool)> {
    Ok(match index::load(Path::new(INDEX))? {
        Some(index) => (index, false),
        None => (index::build(root, walk::walk(root, "", call)?, call)?.0, true),
    })
}

fn search(root: &Path, index: &Index, args: &Query, without_index: bool, call: &Call) -> Result<Found> {
    let (best, matches) = search::rank(index, &args.query, args.limit.clamp(1, 20));
    let passages = search::passages(root, index, &best, call)?;
    Ok(Found { passages, matches, files: index.files.len(), without_index })
}

fn words(found: &Found) -> String {
    if found.passages.is_empty() {
        return format!("Nothing found in {} files.", found.files);
    }
    let mut text = format!("{} passages in {} files; the best:\n", found.matches, found.files);
    for passage in &found.passages {
        text.push_str(&format!("\n{}:{}\n{}\n", passage.file, passage.line, passage.text));
    }
    text
}

/// Which document.
#[derive(Deserialize, JsonSchema)]
struct Document {
    /// Its path inside the library.
    path: String,
}

/// A document, by its path. `search_library` finds paths, and this URI can be completed.
#[template(uri_template = "library:///{+path}", title = "A document of the library")]
fn document(of: Document) -> Result<EmbeddedResource> {
    documents::read(Path::new(LIBRARY), &of.path)
}

#[complete(template = document, argument = "path")]
fn document_path(value: &str) -> Result<Vec<String>> {
    documents::complete(Path::new(LIBRARY), value)
}

/// What to ask.
#[derive(Deserialize, JsonSchema)]
struct Question {
    /// A question that the library may answer.
    question: String,
    /// How many passages to read for it, 1 to 20; 5 by default.
    passages: Option<usize>,
}

/// Answers a question from the passages of the library that fit it best.
#[prompt(title = "Ask the library")]
fn ask_library(args: Question, call: &Call) -> Result<Described> {
    let root = Path::new(LIBRARY);
    let (index, without_index) = opened(root, call)?;
    ask(root, &index, args, without_index, call)
}

fn ask(root: &Path, index: &Index, args: Question, without_index: bool, call: &Call) -> Result<Described> {
    let query = Query { query: args.question, limit: args.passages.unwrap_or(five()) };
    let found = search(root, index, &query, without_index, call)?;
    let mut messages = Vec::new();
    for passage in &found.passages {
        let uri = format!("{}#line={}", documents::uri(&passage.file), passage.line);
        messages.push(user(text_contents(uri, documents::type_of(&passage.file), passage.text.as_str())));
    }
    messages.push(user(match found.passages.len() {
        0 => format!("My library has nothing on this question. Say so before you answer it: {}", query.query),
        _ => format!(
            "Answer this question from the passages above, name the files that you use, and say so if they do \
             not answer it: {}",
            query.query
        ),
    }));
    let description = format!("{} passages of {} that fit", found.passages.len(), found.matches);
    Ok(Described { description, messages })
}

layby_plugin::plugin! {
    tools: [index_folder, search_library],
    prompts: [ask_library],
    templates: [document],
    completions: [document_path],
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
