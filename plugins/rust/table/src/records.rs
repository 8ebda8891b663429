//! Reading a table as a stream, by the line.

use std::io::Read;

use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};
use layby_plugin::prelude::*;

use crate::{Stop, column::Column};

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// A record that is put after the table's end: the crate takes the end for a closing quote, and this
/// record stands alone exactly where none was missing. No table has it, for it is not UTF-8.
const END: &[u8] = b"\n\xFFend\xFF";

type Ended<R> = std::io::Chain<R, &'static [u8]>;

/// The records of a table.
pub(crate) struct Records<R> {
    reader: Reader<Ended<R>>,
    header: ByteRecord,
    header_line: u64,
    record: ByteRecord,
    ended: bool,
}

impl<R: Read> Records<R> {
    /// Reads the header.
    pub(crate) fn open(table: R) -> Result<Self, Stop> {
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            // Not the crate's default, which is CRLF too, for its lines would be counted late.
            .terminator(Terminator::Any(b'\n'))
            .buffer_capacity(CHUNK)
            .from_reader(table.chain(END));
        let (header, record) = (ByteRecord::new(), ByteRecord::new());
        let mut records = Self { reader, header, header_line: 1, record, ended: false };
        match records.next()? {
            Some(line) => records.header_line = line,
            None => return Err(at(1, "the table has no header")),
        }
        std::mem::swap(&mut records.header, &mut records.record);
        Ok(records)
    }

    /// The columns that the header names.
    pub(crate) fn columns(&self) -> Result<Vec<Column>, Stop> {
        let line = self.header_line;
        let mut columns: Vec<Column> = Vec::with_capacity(self.header.len());
        for field in &self.header {
            let name = cell(field, line)?;
            if name.is_empty() {
                return Err(at(line, format!("column {} has no name", columns.len() + 1)));
            }
            if columns.iter().any(|column| column.name == name) {
                return Err(at(line, format!("two columns are named \"{name}\"")));
            }
            columns.push(Column::new(name));
        }
        Ok(columns)
    }

    /// Reads the next record into `columns`; false at the end.
    pub(crate) fn read_into(&mut self, columns: &mut [Column]) -> Result<bool, Stop> {
        let Some(line) = self.next()? else { return Ok(false) };
        let (fields, expected) = (self.record.len(), columns.len());
        if fields != expected {
            return Err(at(line, format!("{fields} fields, and the header has {expected}")));
        }
        for (column, field) in columns.iter_mut().zip(&self.record) {
            column.take(cell(field, line)?);
        }
        Ok(true)
    }

    /// Reads the next record into `self.record`; the line that it begins on, or nothing at the end.
    fn next(&mut self) -> Result<Option<u64>, Stop> {
        loop {
            if self.ended || !self.read()? {
                return Ok(None);
            }
            // The crate counts from before the blank lines that it skips.
            let within = self.record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
            let begun = self.reader.position().line() - within;
            let last = self.record.get(self.record.len().saturating_sub(1)).unwrap_or_default();
            let alone = self.record.len() == 1 && last == &END[1..];
            if alone || last.ends_with(END) {
                return self.end(alone, begun);
            }
            if self.record.as_slice() != b"\r" {
                // The line has been read, with its end.
                return Ok(Some(begun - 1));
            }
        }
    }

    /// What it means that [`END`] has been read.
    fn end(&mut self, alone: bool, line: u64) -> Result<Option<u64>, Stop> {
        // Bytes of the table that look like it have something after them.
        self.ended = !self.read()?;
        match (self.ended, alone) {
            (false, _) => Err(at(line - 1, NOT_UTF8)),
            (true, true) => Ok(None),
            (true, false) => Err(at(line, "a quoted field is not closed")),
        }
    }

    fn read(&mut self) -> Result<bool, Stop> {
        self.reader.read_byte_record(&mut self.record).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => Stop::Unread(error),
            // No other one is made of bytes, where records may have any length.
            other => Stop::Told(Error::failed(format!("{other:?}"))),
        })
    }
}

const NOT_UTF8: &str = "not UTF-8";

/// A field's text without the blanks around it.
fn cell(field: &[u8], line: u64) -> Result<&str, Stop> {
    let text = std::str::from_utf8(field).map_err(|_| at(line, NOT_UTF8))?;
    // The last field has what is left of a CRLF.
    let text = text.strip_suffix('\r').unwrap_or(text);
    Ok(text.trim_matches([' ', '\t']))
}

fn at(line: u64, what: impl std::fmt::Display) -> Stop {
    Stop::Told(Error::failed(format!("line {line}: {what}")))
}
