//! Ranking passages, and fetching their text.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::Path,
};

use layby_plugin::prelude::*;

use crate::{
    index::{Index, Stamp, postings},
    text,
};

/// BM25's usual settings: how soon more of one word stops counting, and how much length matters.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;
/// Words of a query that count.
const QUERY_WORDS: usize = 32;
/// Text of one passage in a result, in characters.
const SHOWN: usize = 1200;

/// A passage that fits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Passage {
    /// Path inside the library.
    pub(crate) file: String,
    /// Number of its first line, from 1.
    pub(crate) line: u32,
    /// How well it fits; only to compare within one result.
    pub(crate) score: f64,
    pub(crate) text: String,
    /// The file has changed since it was indexed, and the text may be another's.
    pub(crate) changed: bool,
}

/// The best passages by BM25, best first, as (index into the passages, score), and how many have
/// any of the words. Words that the index does not have count as nothing.
pub(crate) fn rank(index: &Index, query: &str, limit: usize) -> (Vec<(usize, f64)>, usize) {
    let count = index.passages.len() as f64;
    let words: u64 = index.passages.iter().map(|p| u64::from(p.words)).sum();
    let average = (words as f64 / count.max(1.0)).max(1.0);
    let mut scores: HashMap<usize, f64> = HashMap::new();
    let query: BTreeSet<_> = text::words(query).take(QUERY_WORDS).collect();
    for word in query {
        // A damaged list is a word that is not there; the index as a whole was read in order.
        let list = index.terms.get(&word).and_then(|encoded| postings(encoded).ok()).unwrap_or_default();
        let have = list.len() as f64;
        let rarity = (1.0 + (count - have + 0.5) / (have + 0.5)).ln();
        for (passage, times) in list {
            let Some(place) = index.passages.get(passage) else { continue };
            let times = f64::from(times);
            let length = 1.0 - LENGTH + LENGTH * f64::from(place.words) / average;
            let score = rarity * times * (SATURATION + 1.0) / (times + SATURATION * length);
            *scores.entry(passage).or_default() += score;
        }
    }
    let matches = scores.len();
    let mut best: Vec<_> = scores.into_iter().collect();
    // Equal scores in the order of the library, so that equal calls give equal results.
    best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    best.truncate(limit);
    (best, matches)
}

/// Fetches the text of passages from their files.
pub(crate) fn passages(
    root: &Path,
    index: &Index,
    best: &[(usize, f64)],
    call: &Call,
) -> Result<Vec<Passage>> {
    let mut passages = Vec::new();
    for (passage, score) in best {
        call.check()?;
        let place = index.passages[*passage];
        let file = &index.files[place.file as usize];
        let path = root.join(&file.path);
        let now = fs::metadata(&path).map(|metadata| Stamp::from(&metadata));
        let changed = !now.is_ok_and(|now| now == file.stamp);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let first = place.line.saturating_sub(1) as usize;
        let lines: Vec<_> = text.lines().skip(first).take(place.lines as usize).collect();
        passages.push(Passage {
            file: file.path.clone(),
            line: place.line,
            score: (score * 1000.0).round() / 1000.0,
            text: cut(&lines.join("\n")),
            changed,
        });
    }
    Ok(passages)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
