//! What is told of a table.

use std::fmt::Write as _;

use layby_plugin::prelude::*;

use crate::column::{Column, Kind};

/// The result of `summarize_table`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// Records below the header.
    rows: u64,
    /// The column that identifies a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Rows whose key is missing, or stands in an earlier row.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicates: Option<u64>,
    columns: Vec<Statistics>,
}

/// One column.
#[derive(Debug, Serialize, JsonSchema)]
struct Statistics {
    name: String,
    r#type: Kind,
    /// Cells with something in them.
    values: u64,
    /// Cells without.
    missing: u64,
    /// Different values.
    distinct: u64,
    /// Of numbers: the smallest.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    /// Of numbers: the largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    /// Of numbers: their mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
    /// Of text: characters of the shortest.
    #[serde(skip_serializing_if = "Option::is_none")]
    shortest: Option<usize>,
    /// Of text: characters of the longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest: Option<usize>,
}

impl Summary {
    pub(crate) fn new(rows: u64, columns: &[Column], key: Option<usize>) -> Self {
        let key = key.and_then(|index| columns.get(index));
        Self {
            rows,
            key: key.map(|column| column.name.clone()),
            // A value's first row is none, and every other row is one.
            duplicates: key.map(|column| rows - column.distinct()),
            columns: columns.iter().map(Statistics::of).collect(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{} rows, {} columns, ", self.rows, self.columns.len());
        match &self.key {
            Some(key) => text.push_str(&format!("key: {key}")),
            None => text.push_str("no key"),
        }
        if let Some(duplicates) = self.duplicates.filter(|n| *n > 0) {
            text.push_str(&format!(", {duplicates} duplicates"));
        }
        for column in &self.columns {
            text.push('\n');
            column.describe(&mut text);
        }
        text
    }
}

impl Statistics {
    fn of(column: &Column) -> Self {
        let (kind, numbers) = (column.kind(), column.numbers());
        let text = kind == Kind::Text;
        Self {
            name: column.name.clone(),
            r#type: kind,
            values: column.values,
            missing: column.missing,
            distinct: column.distinct(),
            min: numbers.map(|n| n.min),
            max: numbers.map(|n| n.max),
            mean: numbers.map(|_| column.mean()),
            shortest: text.then_some(column.shortest),
            longest: text.then_some(column.longest),
        }
    }

    fn describe(&self, to: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(to, "{}: {}, {} values", self.name, self.r#type.name(), self.values);
        if self.missing > 0 {
            let _ = write!(to, ", {} missing", self.missing);
        }
        if self.r#type != Kind::Empty {
            let _ = write!(to, ", {} distinct", self.distinct);
        }
        if let (Some(min), Some(max), Some(mean)) = (self.min, self.max, self.mean) {
            let places = if self.r#type == Kind::Integer { 0 } else { 2 };
            // Without the sign of a zero that is an integer.
            let (min, max) = if places == 0 { (min + 0.0, max + 0.0) } else { (min, max) };
            let _ = write!(to, ", {min:.places$} to {max:.places$}, mean {mean:.2}");
        }
        if let (Some(shortest), Some(longest)) = (self.shortest, self.longest) {
            let _ = write!(to, ", {shortest} to {longest} characters");
        }
    }
}
