//! The index: which passage has which words.

use std::{
    collections::HashMap,
    fs::{self, Metadata},
    io::ErrorKind,
    path::Path,
    time::UNIX_EPOCH,
};

use layby_plugin::prelude::*;

use crate::{
    Indexed,
    codec::{Reader, Writer, broken},
    text,
    walk::Walk,
};

/// The first bytes of an index file; another version has others.
const MAGIC: &[u8] = b"layby-library-1\n";
/// Text in one file.
const FILE_BYTES: u64 = 8 << 20;
/// Text in all: its index has to fit into the memory of one run.
const ALL_BYTES: u64 = 96 << 20;
/// A file with a zero byte in its first bytes is not text.
const SNIFFED: usize = 8192;

/// A file in the index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Indexee {
    pub(crate) path: String,
    pub(crate) stamp: Stamp,
}

/// Size and time of a file's last change, in milliseconds: what tells that it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) size: u64,
    pub(crate) modified_ms: u64,
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let modified_ms = modified.map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
        Self { size: metadata.len(), modified_ms }
    }
}

/// Where a passage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Into [`Index::files`].
    pub(crate) file: u32,
    /// Number of the first line, from 1.
    pub(crate) line: u32,
    pub(crate) lines: u32,
    /// How many words it has.
    pub(crate) words: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) files: Vec<Indexee>,
    pub(crate) passages: Vec<Place>,
    /// For each word, encoded, the passages that have it and how often; [`postings`] reads them.
    pub(crate) terms: HashMap<String, Vec<u8>>,
}

/// The passages of one word: index into [`Index::passages`], and how often it is there.
pub(crate) fn postings(encoded: &[u8]) -> Result<Vec<(usize, u32)>> {
    let mut reader = Reader(encoded);
    let mut postings = Vec::new();
    let mut passage = 0_usize;
    while !reader.0.is_empty() {
        passage = passage.checked_add(reader.small()? as usize).ok_or_else(broken)?;
        postings.push((passage, reader.small()?));
    }
    Ok(postings)
}

/// Reads the files, and reports progress by file.
pub(crate) fn build(root: &Path, mut walk: Walk, call: &Call) -> Result<(Index, Indexed)> {
    let mut builder = Builder::default();
    let mut bytes = 0;
    let total = walk.paths.len() as f64;
    for (done, path) in walk.paths.iter().enumerate() {
        call.check()?;
        match read(&root.join(path), ALL_BYTES - bytes) {
            Ok((text, stamp)) => {
                bytes += text.len() as u64;
                builder.add(path, stamp, &text);
            }
            Err(why) => walk.skipped.note(path, why),
        }
        call.progress(done as f64 + 1.0, total, path.as_str());
    }
    let index = builder.finish();
    let indexed = Indexed {
        files: index.files.len(),
        passages: index.passages.len(),
        terms: index.terms.len(),
        bytes,
        skipped: walk.skipped.count,
        skipped_for: walk.skipped.reasons,
    };
    Ok((index, indexed))
}

/// The text of a file, or why it is left out.
fn read(path: &Path, room: u64) -> Result<(String, Stamp), String> {
    let metadata = fs::metadata(path).map_err(|e| e.to_string())?;
    if metadata.len() > FILE_BYTES {
        return Err(format!("larger than {FILE_BYTES} bytes"));
    }
    if metadata.len() > room {
        return Err(format!("an index holds at most {ALL_BYTES} bytes of text"));
    }
    let bytes = fs::read(path).map_err(|e| e.to_string())?;
    if bytes[..bytes.len().min(SNIFFED)].contains(&0) {
        return Err("not text".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
    // The limits again, on what was read: the file may have grown meanwhile.
    if text.len() as u64 > FILE_BYTES.min(room) {
        return Err("it grew while it was read".to_owned());
    }
    Ok((text, Stamp::from(&metadata)))
}

/// The list of one word while the index grows.
#[derive(Default)]
struct Posting {
    encoded: Writer,
    /// The passage that the last entry is of, and its count so far.
    open: Option<(u64, u64)>,
    /// The passage before it.
    closed: u64,
}

impl Posting {
    fn add(&mut self, passage: u64) {
        match &mut self.open {
            Some((last, count)) if *last == passage => *count += 1,
            _ => {
                self.close();
                self.open = Some((passage, 1));
            }
        }
    }

    fn close(&mut self) {
        if let Some((passage, count)) = self.open.take() {
            self.encoded.number(passage - self.closed);
            self.encoded.number(count);
            self.closed = passage;
        }
    }
}

#[derive(Default)]
struct Builder {
    files: Vec<Indexee>,
    passages: Vec<Place>,
    terms: HashMap<String, Posting>,
}

impl Builder {
    fn add(&mut self, path: &str, stamp: Stamp, text: &str) {
        let file = self.files.len() as u32;
        self.files.push(Indexee { path: path.to_owned(), stamp });
        for passage in text::passages(text) {
            let id = self.passages.len() as u64;
            let mut words = 0;
            for word in text::words(passage.text) {
                self.terms.entry(word).or_default().add(id);
                words += 1;
            }
            self.passages.push(Place { file, line: passage.first, lines: passage.count, words });
        }
    }

    fn finish(self) -> Index {
        let closed = |(word, mut posting): (String, Posting)| {
            posting.close();
            (word, posting.encoded.0)
        };
        Index {
            files: self.files,
            passages: self.passages,
            terms: self.terms.into_iter().map(closed).collect(),
        }
    }
}

/// Writes the index beside the old one, and then takes its place: a search meets one or the other.
pub(crate) fn save(index: &Index, path: &Path, call: &Call) -> Result<()> {
    let why = |e: std::io::Error| {
        Error::failed(format!(
            "cannot write the index: {e}. The policy grants a writable folder as `/index`."
        ))
    };
    let temporary = path.with_extension("new");
    fs::write(&temporary, encode(index)).map_err(why)?;
    call.check()?;
    fs::rename(&temporary, path).map_err(why)
}

/// Reads the index; none if there is none.
pub(crate) fn load(path: &Path) -> Result<Option<Index>> {
    match fs::read(path) {
        Ok(bytes) => decode(&bytes).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // No folder of that name is granted.
        Err(error) if path.parent().is_some_and(|folder| fs::metadata(folder).is_err()) => {
            let _ = error;
            Ok(None)
        }
        Err(error) => Err(Error::failed(format!("cannot read the index: {error}"))),
    }
}

fn encode(index: &Index) -> Vec<u8> {
    let mut to = Writer(MAGIC.to_vec());
    to.number(index.files.len() as u64);
    for file in &index.files {
        to.bytes(file.path.as_bytes());
        to.number(file.stamp.size);
        to.number(file.stamp.modified_ms);
    }
    to.number(index.passages.len() as u64);
    for passage in &index.passages {
        for number in [passage.file, passage.line, passage.lines, passage.words] {
            to.number(u64::from(number));
        }
    }
    // Sorted, so that equal texts give an equal file.
    let mut terms: Vec<_> = index.terms.iter().collect();
    terms.sort();
    to.number(terms.len() as u64);
    for (word, postings) in terms {
        to.bytes(word.as_bytes());
        to.bytes(postings);
    }
    to.0
}

fn decode(bytes: &[u8]) -> Result<Index> {
    let mut from = Reader(bytes.strip_prefix(MAGIC).ok_or_else(broken)?);
    let mut index = Index::default();
    for _ in 0..from.count()? {
        let path = from.text()?.to_owned();
        let stamp = Stamp { size: from.number()?, modified_ms: from.number()? };
        index.files.push(Indexee { path, stamp });
    }
    for _ in 0..from.count()? {
        let place =
            Place { file: from.small()?, line: from.small()?, lines: from.small()?, words: from.small()? };
        if place.file as usize >= index.files.len() {
            return Err(broken());
        }
        index.passages.push(place);
    }
    for _ in 0..from.count()? {
        let word = from.text()?.to_owned();
        index.terms.insert(word, from.bytes()?.to_vec());
    }
    Ok(index)
}

#[cfg(test)]
pub(crate) fn coded(index: &Index) -> Result<Index> {
    decode(&encode(index))
}
