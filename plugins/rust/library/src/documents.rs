//! The documents themselves, as resources.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use layby_plugin::{
    prelude::*,
    types::{EmbeddedResource, ResourceContents},
};

/// A document that is read whole. The host has its own limit on a result; a larger document would only
/// fill the memory first.
const DOCUMENT_BYTES: u64 = 8 << 20;
/// Names that are looked at to complete one.
const ENTRIES: usize = 10_000;

/// The URI of a document, with what a path in a URI cannot hold behind percent signs.
pub(crate) fn uri(path: &str) -> String {
    let mut uri = "library:///".to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

/// A document of the library.
pub(crate) fn read(root: &Path, path: &str) -> Result<EmbeddedResource> {
    let file = inside(root, path).ok_or(Error::NotFound)?;
    let metadata = match fs::symlink_metadata(&file) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Err(Error::NotFound);
        }
        Err(error) => return Err(error.into()),
    };
    if !metadata.is_file() {
        return Err(Error::NotFound);
    }
    if metadata.len() > DOCUMENT_BYTES {
        let what = format!("`{path}` has {} bytes; a document may have {DOCUMENT_BYTES}", metadata.len());
        return Err(Error::protocol(Error::INVALID, what));
    }
    let (mime_type, contents) = match String::from_utf8(fs::read(&file)?) {
        Ok(text) => (Some(type_of(path)), ResourceContents::Text(text)),
        Err(bytes) => (None, ResourceContents::Blob(bytes.into_bytes())),
    };
    let mime_type = mime_type.map(str::to_owned);
    Ok(EmbeddedResource { uri: uri(path), mime_type, contents })
}

/// The media type of a text.
pub(crate) fn type_of(path: &str) -> &'static str {
    match Path::new(path).extension().and_then(|extension| extension.to_str()) {
        Some("md" | "markdown") => "text/markdown",
        Some("html" | "htm") => "text/html",
        Some("csv") => "text/csv",
        Some("json") => "application/json",
        _ => "text/plain",
    }
}

/// A path under the root; none for one that leaves it, or has a hidden name, which no listing shows.
fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let fine = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']);
    path.split('/').all(fine).then(|| root.join(path))
}

/// The documents and folders whose paths begin with `value`; a folder's ends in `/`.
pub(crate) fn complete(root: &Path, value: &str) -> Result<Vec<String>> {
    let (folder, name) = value.rsplit_once('/').map_or(("", value), |(folder, name)| (folder, name));
    let whole = if folder.is_empty() { Some(root.to_owned()) } else { inside(root, folder) };
    // What is not there has no completion, and that is no error.
    let Some(entries) = whole.and_then(|folder| fs::read_dir(folder).ok()) else { return Ok(Vec::new()) };
    let mut values = Vec::new();
    for entry in entries.take(ENTRIES) {
        let entry = entry?;
        let found = entry.file_name();
        let Some(found) = found.to_str().filter(|found| !found.starts_with('.')) else { continue };
        if !found.to_lowercase().starts_with(&name.to_lowercase()) {
            continue;
        }
        let kind = entry.file_type()?;
        let end = match () {
            () if kind.is_dir() => "/",
            () if kind.is_file() => "",
            () => continue,
        };
        let slash = if folder.is_empty() { "" } else { "/" };
        values.push(format!("{folder}{slash}{found}{end}"));
    }
    values.sort();
    Ok(values)
}
