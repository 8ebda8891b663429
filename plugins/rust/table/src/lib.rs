//! A plugin with one tool: statistics of a CSV file.

mod column;
mod key;
mod records;
mod summary;

use std::{
    fs::File,
    io::{Cursor, Read},
};

use layby_plugin::{Structured, prelude::*};

use crate::{records::Records, summary::Summary};

/// Rows between two reports of progress, and two checks for cancellation.
const STRIDE: u64 = 1000;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Source {
    /// The table itself, as CSV text with a header line.
    csv: Option<String>,
    /// Path of a CSV file in a granted folder, such as /tables/people.csv.
    path: Option<String>,
    /// Name of the column that identifies a row; found or asked for where it is not given.
    key: Option<String>,
}

/// Statistics for each column of a CSV file, and which column identifies a row.
#[tool(title = "Summarize a table", read_only)]
fn summarize_table(source: Source, call: &Call) -> Result<Structured<Summary>> {
    let summary = match (source.csv, source.path) {
        (Some(csv), None) => summarize(Cursor::new(csv), source.key.as_deref(), call)?,
        (None, Some(path)) => {
            let unread = |error| Error::failed(format!("cannot read {path}: {error}"));
            let file = File::open(&path).map_err(unread)?;
            // A folder opens like a file.
            if file.metadata().map_err(unread)?.is_dir() {
                return Err(Error::failed(format!("cannot read {path}: it is a folder")));
            }
            // What opens may still not be read.
            summarize(file, source.key.as_deref(), call).map_err(|error| match error {
                Stop::Unread(error) => unread(error),
                Stop::Told(error) => error,
            })?
        }
        _ => return Err("give either csv or path".into()),
    };
    Ok(Structured { text: summary.text(), value: summary })
}

/// Why there is no summary.
#[derive(Debug)]
enum Stop {
    /// The table could not be read to its end.
    Unread(std::io::Error),
    /// Anything that is ready to be told.
    Told(Error),
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Unread(error) => Error::failed(error.to_string()),
            Stop::Told(error) => error,
        }
    }
}

fn summarize(table: impl Read, key: Option<&str>, call: &Call) -> Result<Summary, Stop> {
    let mut records = Records::open(table)?;
    let mut columns = records.columns()?;
    let mut rows = 0;
    while records.read_into(&mut columns)? {
        rows += 1;
        if rows % STRIDE == 0 {
            tell(call, rows, 0.0)?;
        }
    }
    if rows > 0 {
        tell(call, rows, rows as f64)?;
    }
    let key = key::find(&columns, rows, key, call).map_err(Stop::Told)?;
    Ok(Summary::new(rows, &columns, key))
}

fn tell(call: &Call, rows: u64, total: f64) -> Result<(), Stop> {
    call.progress(rows as f64, total, format!("{rows} rows"));
    call.check().map_err(|cancelled| Stop::Told(cancelled.into()))
}

layby_plugin::plugin!(summarize_table);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
