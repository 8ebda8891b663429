//! Between values and what the columns of every database hold.

use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

use super::{Question, QuestionKind, Status, StoreError, Task};
use crate::base::{Blob, Digest, Piece, TaskId, UnixMillis};

/// Takes the values of a row, column by column.
pub(super) trait Sink {
    fn maybe_int(&mut self, n: Option<u64>) -> &mut Self;
    fn bool(&mut self, b: bool) -> &mut Self;
    /// One of our own words.
    fn text(&mut self, t: &str) -> &mut Self;
    /// A name of a plugin's or an operator's.
    fn name(&mut self, t: &str) -> &mut Self;
    /// Null for none.
    fn maybe_bytes(&mut self, b: Option<impl Into<Vec<u8>>>) -> &mut Self;

    fn int(&mut self, n: u64) -> &mut Self {
        self.maybe_int(Some(n))
    }

    fn bytes(&mut self, b: impl Into<Vec<u8>>) -> &mut Self {
        self.maybe_bytes(Some(b))
    }
}

/// Integers of SQL are signed; what does not fit is as good as endless.
pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(super) fn json_bytes<T: Serialize>(v: &T) -> Vec<u8> {
    // Our values hold JSON already: strings, maps with string keys, finite numbers.
    serde_json::to_vec(v).unwrap_or_else(|_| b"null".to_vec())
}

/// A new task's row: the columns of `INSERT_TASKS`, in order.
pub(super) fn push_new(rows: &mut impl Sink, t: &Task) {
    rows.bytes(*t.id.0.as_bytes())
        .name(t.principal.as_str())
        .name(&t.tool)
        .name(&t.plugin)
        .bytes(t.digest.0)
        .int(t.created_at.0)
        .maybe_bytes(t.key.as_ref().map(|k| k.key.as_bytes()))
        .maybe_bytes(t.key.as_ref().map(|k| k.arguments.0));
    push_changing(rows, t);
}

/// A changed task's row: the columns of `UPDATE_TASKS`; `fence` is the one it was read with.
pub(super) fn push_changed(rows: &mut impl Sink, t: &Task, fence: u64) {
    rows.bytes(*t.id.0.as_bytes()).int(fence);
    push_changing(rows, t);
}

fn push_changing(rows: &mut impl Sink, t: &Task) {
    let expires = t.created_at + t.ttl;
    let due = t.input_deadline.map_or(expires, |d| d.min(expires));
    rows.text(t.status.as_str())
        .maybe_bytes(t.status_message.as_ref().map(|m| m.as_bytes()))
        .int(t.updated_at.0)
        .int(t.ttl.0)
        .int(t.poll_interval.0)
        .int(t.active_left.0)
        .int(t.absence.0)
        .maybe_bytes(t.holder.as_ref().map(|h| *h.0.as_bytes()))
        .int(t.fence)
        .maybe_int(t.cancel_requested.map(|c| c.0))
        .maybe_int(t.input_deadline.map(|c| c.0))
        .bool(t.resume_on_timeout)
        .bool(t.revealed)
        .int(t.questions.len() as u64)
        .int(expires.0)
        .int(due.0)
        .maybe_bytes(t.end.as_ref().map(json_bytes))
        .int(u64::from(t.pieces))
        .maybe_bytes(t.pinned.as_ref().map(|p| p.as_bytes()))
        .maybe_int(t.wake_at.map(|w| w.0))
        .int(u64::from(t.attempts))
        .maybe_int(t.retry_at.map(|r| r.0))
        .int(u64::from(t.resumed))
        .int(t.parked_ms.0)
        .maybe_int(t.parked_at.map(|p| p.0))
        .maybe_int(ready_at(t).map(|r| r.0))
        .int(t.replayed);
}

/// The column that [`super::Store::resumable`] looks for. 0 where it waits for no time: a wall clock that
/// has gone back must not hold it up.
pub(super) fn ready_at(t: &Task) -> Option<UnixMillis> {
    let may =
        t.end.is_none() && t.status == Status::Working && t.is_resumable() && t.cancel_requested.is_none();
    may.then(|| t.wake_at.max(t.retry_at).unwrap_or_default())
}

/// A new question's row: the columns of `INSERT_QUESTIONS`.
pub(super) fn push_question(rows: &mut impl Sink, id: TaskId, position: usize, q: &Question) {
    rows.bytes(*id.0.as_bytes())
        .int(position as u64)
        .int(u64::from(q.round))
        .text(kind_str(q.kind))
        .bytes(q.key.as_bytes())
        .bytes(json_bytes(&q.request))
        .maybe_bytes(q.answer.as_ref().map(json_bytes));
}

/// An answered question's row: the columns of `ANSWER_QUESTIONS`.
pub(super) fn push_answer(rows: &mut impl Sink, id: TaskId, position: usize, q: &Question) {
    rows.bytes(*id.0.as_bytes()).int(position as u64).maybe_bytes(q.answer.as_ref().map(json_bytes));
}

pub(super) const fn kind_str(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Form => "form",
        QuestionKind::Url => "url",
        QuestionKind::Sampling => "sampling",
        QuestionKind::Roots => "roots",
    }
}

pub(super) fn kind_of(word: &str) -> Result<QuestionKind, StoreError> {
    [QuestionKind::Form, QuestionKind::Url, QuestionKind::Sampling, QuestionKind::Roots]
        .into_iter()
        .find(|kind| kind_str(*kind) == word)
        .ok_or_else(|| damaged("question"))
}

pub(super) fn damaged(what: &str) -> StoreError {
    StoreError::Corrupt(format!("a row has no valid {what}"))
}

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|_| damaged(what))
}

pub(super) fn text(bytes: Vec<u8>, what: &str) -> Result<String, StoreError> {
    String::from_utf8(bytes).map_err(|_| damaged(what))
}

pub(super) fn status(word: &str) -> Result<Status, StoreError> {
    [Status::Working, Status::InputRequired, Status::Completed, Status::Failed, Status::Cancelled]
        .into_iter()
        .find(|s| s.as_str() == word)
        .ok_or_else(|| damaged("status"))
}

pub(super) fn uuid(bytes: &[u8], what: &str) -> Result<Uuid, StoreError> {
    Uuid::from_slice(bytes).map_err(|_| damaged(what))
}

pub(super) fn digest(bytes: &[u8]) -> Result<Digest, StoreError> {
    bytes.try_into().map(Digest).map_err(|_| damaged("digest"))
}

pub(super) fn unsigned(n: i64, what: &str) -> Result<u64, StoreError> {
    u64::try_from(n).map_err(|_| damaged(what))
}

pub(super) fn small(n: u64) -> Result<u32, StoreError> {
    u32::try_from(n).map_err(|_| damaged("count"))
}

/// A piece's row: the columns of `INSERT_PIECES`.
pub(super) fn push_piece(rows: &mut impl Sink, id: TaskId, n: u32, piece: &Piece) {
    rows.bytes(*id.0.as_bytes()).int(u64::from(n)).bytes(&piece.bytes[..]);
}

/// The row of a blob of piece `n`: the columns of `INSERT_BLOBS`.
pub(super) fn push_blob(rows: &mut impl Sink, id: TaskId, n: u32, blob: &Blob) {
    rows.bytes(*id.0.as_bytes()).int(u64::from(n)).bytes(blob.digest).bytes(&blob.bytes[..]);
}

/// A row of a journal: how many pieces its task counts, and a part of it with the number of its piece.
pub(super) struct JournalRow {
    pub(super) counted: i64,
    pub(super) part: Part,
}

pub(super) enum Part {
    /// It has no pieces.
    Nothing,
    Piece(i64, Vec<u8>),
    Blob(i64, Blob),
}

/// The pieces of a journal with their blobs: no gap, and as many as the task counts. Pieces come in order, and blobs
/// anywhere.
pub(super) fn journal(
    rows: impl IntoIterator<Item = Result<JournalRow, StoreError>>,
) -> Result<Vec<Piece>, StoreError> {
    let (mut pieces, mut blobs, mut counted) = (Vec::<Piece>::new(), Vec::new(), 0);
    for row in rows {
        let row = row?;
        counted = row.counted;
        match row.part {
            Part::Nothing => {}
            Part::Piece(n, bytes) if usize::try_from(n) == Ok(pieces.len()) => pieces.push(bytes.into()),
            Part::Piece(..) => {
                return Err(StoreError::Corrupt(format!("piece {} of a journal is missing", pieces.len())));
            }
            Part::Blob(n, blob) => blobs.push((n, blob)),
        }
    }
    for (n, blob) in blobs {
        let piece = usize::try_from(n).ok().and_then(|n| pieces.get_mut(n));
        piece
            .ok_or_else(|| StoreError::Corrupt(format!("piece {n} of a journal is missing")))?
            .blobs
            .push(blob);
    }
    if usize::try_from(counted) == Ok(pieces.len()) {
        Ok(pieces)
    } else {
        let text = format!("a journal has {} pieces where its task counts {counted}", pieces.len());
        Err(StoreError::Corrupt(text))
    }
}
