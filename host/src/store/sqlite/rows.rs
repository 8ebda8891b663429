//! Between rows and values.

use sqlx::{
    Arguments as _, Row as _, SqliteConnection,
    sqlite::{SqliteArguments, SqliteRow},
};
use uuid::Uuid;

use super::sql::Bulk;
use crate::{
    base::{BootId, Digest, Millis, Principal, TaskId, UnixMillis},
    store::{
        Answer, End, IdempotencyKey, PluginRow, Question, QuestionKind, Status, StoreError, Task, Tombstone,
    },
};

/// A value on its way to a statement.
enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The rows of one statement: their values, one after the other.
#[derive(Default)]
pub(super) struct Rows {
    values: Vec<Value>,
    /// Bytes of texts and blobs.
    pub(super) bytes: usize,
}

impl Rows {
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn int(&mut self, n: u64) -> &mut Self {
        self.values.push(Value::Int(signed(n)));
        self
    }

    pub(super) fn maybe_int(&mut self, n: Option<u64>) -> &mut Self {
        self.values.push(n.map_or(Value::Null, |n| Value::Int(signed(n))));
        self
    }

    pub(super) fn text(&mut self, t: &str) -> &mut Self {
        self.bytes += t.len();
        self.values.push(Value::Text(t.to_owned()));
        self
    }

    pub(super) fn bytes(&mut self, b: impl Into<Vec<u8>>) -> &mut Self {
        self.maybe_bytes(Some(b))
    }

    /// As [`Rows::bytes`]; null for none.
    pub(super) fn maybe_bytes(&mut self, b: Option<impl Into<Vec<u8>>>) -> &mut Self {
        let value = b.map_or(Value::Null, |b| Value::Bytes(b.into()));
        if let Value::Bytes(b) = &value {
            self.bytes += b.len();
        }
        self.values.push(value);
        self
    }

    /// Runs `bulk` over all of them; returns how many rows there were and how many it touched.
    pub(super) async fn execute(
        self,
        bulk: &'static Bulk,
        c: &mut SqliteConnection,
    ) -> Result<(u64, u64), StoreError> {
        let (mut rows, mut touched) = (0, 0);
        for (size, arguments) in self.chunks(bulk)? {
            touched += sqlx::query_with(bulk.text(size), arguments).execute(&mut *c).await?.rows_affected();
            rows += 1 << size;
        }
        Ok((rows, touched))
    }

    /// The tasks that `bulk` selects by them.
    pub(super) async fn select(
        self,
        bulk: &'static Bulk,
        c: &mut SqliteConnection,
    ) -> Result<Vec<Task>, StoreError> {
        let mut found = Vec::new();
        for (size, arguments) in self.chunks(bulk)? {
            for row in sqlx::query_with(bulk.text(size), arguments).fetch_all(&mut *c).await? {
                found.push(task(&row)?);
            }
        }
        Ok(found)
    }

    /// Groups of rows whose number is a power of two, given as its exponent.
    fn chunks(self, bulk: &Bulk) -> Result<Vec<(usize, SqliteArguments)>, StoreError> {
        let mut left = self.values.len() / bulk.width;
        debug_assert_eq!(left * bulk.width, self.values.len(), "a row has another number of values");
        let mut values = self.values.into_iter();
        let mut chunks = Vec::new();
        while left > 0 {
            let size = (left.ilog2() as usize).min(Bulk::SIZES - 1);
            let mut arguments = SqliteArguments::default();
            arguments.reserve(bulk.width << size, 0);
            for value in values.by_ref().take(bulk.width << size) {
                let added = match value {
                    Value::Null => arguments.add(None::<i64>),
                    Value::Int(n) => arguments.add(n),
                    Value::Text(t) => arguments.add(t),
                    Value::Bytes(b) => arguments.add(b),
                };
                added.map_err(|e| StoreError::Other(e.to_string()))?;
            }
            chunks.push((size, arguments));
            left -= 1 << size;
        }
        Ok(chunks)
    }
}

/// SQLite's integers are signed; what does not fit is as good as endless.
pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn json_bytes<T: serde::Serialize>(v: &T) -> Vec<u8> {
    // Our values hold JSON already: strings, maps with string keys, finite numbers.
    serde_json::to_vec(v).unwrap_or_else(|_| b"null".to_vec())
}

/// A new task's row: the columns of `INSERT_TASKS`, in order.
pub(super) fn push_new(rows: &mut Rows, t: &Task) {
    rows.bytes(*t.id.0.as_bytes())
        .text(t.principal.as_str())
        .text(&t.tool)
        .text(&t.plugin)
        .bytes(t.digest.0)
        .int(t.created_at.0)
        .maybe_bytes(t.key.as_ref().map(|k| k.key.as_bytes()))
        .maybe_bytes(t.key.as_ref().map(|k| k.arguments.0));
    push_changing(rows, t);
}

/// A changed task's row: the columns of `UPDATE_TASKS`; `fence` is the one it was read with.
pub(super) fn push_changed(rows: &mut Rows, t: &Task, fence: u64) {
    rows.bytes(*t.id.0.as_bytes()).int(fence);
    push_changing(rows, t);
}

fn push_changing(rows: &mut Rows, t: &Task) {
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
        .int(u64::from(t.resume_on_timeout))
        .int(u64::from(t.revealed))
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
        .maybe_int(ready_at(t).map(|r| r.0));
}

/// The column that [`super::sql::RESUMABLE`] looks for. 0 where it waits for no time: a wall clock that
/// has gone back must not hold it up.
fn ready_at(t: &Task) -> Option<UnixMillis> {
    let may =
        t.end.is_none() && t.status == Status::Working && t.is_resumable() && t.cancel_requested.is_none();
    may.then(|| t.wake_at.max(t.retry_at).unwrap_or_default())
}

/// A new question's row: the columns of `INSERT_QUESTIONS`.
pub(super) fn push_question(rows: &mut Rows, id: TaskId, position: usize, q: &Question) {
    rows.bytes(*id.0.as_bytes())
        .int(position as u64)
        .int(u64::from(q.round))
        .text(kind_str(q.kind))
        .bytes(q.key.as_bytes())
        .bytes(json_bytes(&q.request))
        .maybe_bytes(q.answer.as_ref().map(json_bytes));
}

/// An answered question's row: the columns of `ANSWER_QUESTIONS`.
pub(super) fn push_answer(rows: &mut Rows, id: TaskId, position: usize, q: &Question) {
    rows.bytes(*id.0.as_bytes()).int(position as u64).maybe_bytes(q.answer.as_ref().map(json_bytes));
}

const fn kind_str(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Form => "form",
        QuestionKind::Url => "url",
        QuestionKind::Sampling => "sampling",
        QuestionKind::Roots => "roots",
    }
}

fn damaged(what: &str) -> StoreError {
    StoreError::Corrupt(format!("a row has no valid {what}"))
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|_| damaged(what))
}

fn text(bytes: Vec<u8>, what: &str) -> Result<String, StoreError> {
    String::from_utf8(bytes).map_err(|_| damaged(what))
}

fn status(word: &str) -> Result<Status, StoreError> {
    [Status::Working, Status::InputRequired, Status::Completed, Status::Failed, Status::Cancelled]
        .into_iter()
        .find(|s| s.as_str() == word)
        .ok_or_else(|| damaged("status"))
}

fn uuid(bytes: &[u8], what: &str) -> Result<Uuid, StoreError> {
    Uuid::from_slice(bytes).map_err(|_| damaged(what))
}

fn digest(bytes: &[u8]) -> Result<Digest, StoreError> {
    bytes.try_into().map(Digest).map_err(|_| damaged("digest"))
}

fn unsigned(n: i64, what: &str) -> Result<u64, StoreError> {
    u64::try_from(n).map_err(|_| damaged(what))
}

fn small(n: u64) -> Result<u32, StoreError> {
    u32::try_from(n).map_err(|_| damaged("count"))
}

/// The rows of `JOURNAL`: no gap, and as many as the task counts.
pub(super) fn journal(rows: &[SqliteRow]) -> Result<Vec<Vec<u8>>, StoreError> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let count: i64 = first.try_get(0)?;
    let mut pieces = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(n) = row.try_get::<Option<i64>, _>(1)? else { continue };
        if usize::try_from(n) != Ok(pieces.len()) {
            return Err(StoreError::Corrupt(format!("piece {} of a journal is missing", pieces.len())));
        }
        pieces.push(row.try_get(2)?);
    }
    if usize::try_from(count) == Ok(pieces.len()) {
        Ok(pieces)
    } else {
        Err(StoreError::Corrupt(format!(
            "a journal has {} pieces where its task counts {count}",
            pieces.len()
        )))
    }
}

/// The single column of a digest.
pub(super) fn digest_row(row: &SqliteRow) -> Result<Digest, StoreError> {
    digest(row.try_get::<&[u8], _>(0)?)
}

/// A row of the columns that `select_tasks!` names.
pub(super) fn task(row: &SqliteRow) -> Result<Task, StoreError> {
    let int = |i: usize| -> Result<u64, StoreError> { unsigned(row.try_get::<i64, _>(i)?, "number") };
    let maybe_int = |i: usize| -> Result<Option<u64>, StoreError> {
        row.try_get::<Option<i64>, _>(i)?.map(|n| unsigned(n, "number")).transpose()
    };
    let key = match (row.try_get::<Option<Vec<u8>>, _>(18)?, row.try_get::<Option<&[u8]>, _>(19)?) {
        (Some(key), Some(arguments)) => {
            Some(IdempotencyKey { key: text(key, "key")?, arguments: digest(arguments)? })
        }
        _ => None,
    };
    Ok(Task {
        id: TaskId(uuid(row.try_get(0)?, "id")?),
        principal: Principal::from_stored(row.try_get(1)?),
        tool: row.try_get(2)?,
        plugin: row.try_get(3)?,
        digest: digest(row.try_get(4)?)?,
        status: status(row.try_get(5)?)?,
        status_message: row.try_get::<Option<Vec<u8>>, _>(6)?.map(|m| text(m, "message")).transpose()?,
        created_at: UnixMillis(int(7)?),
        updated_at: UnixMillis(int(8)?),
        ttl: Millis(int(9)?),
        poll_interval: Millis(int(10)?),
        active_left: Millis(int(11)?),
        absence: Millis(int(12)?),
        holder: row.try_get::<Option<&[u8]>, _>(13)?.map(|h| uuid(h, "holder").map(BootId)).transpose()?,
        fence: int(14)?,
        cancel_requested: maybe_int(15)?.map(UnixMillis),
        input_deadline: maybe_int(16)?.map(UnixMillis),
        resume_on_timeout: int(17)? != 0,
        key,
        revealed: int(20)? != 0,
        end: row.try_get::<Option<&[u8]>, _>(21)?.map(|o| parse::<End>(o, "outcome")).transpose()?,
        questions: questions(row.try_get::<Option<&str>, _>(22)?.unwrap_or_default())?,
        pieces: small(int(23)?)?,
        pinned: row.try_get::<Option<Vec<u8>>, _>(24)?.map(|p| text(p, "reason")).transpose()?,
        wake_at: maybe_int(25)?.map(UnixMillis),
        attempts: small(int(26)?)?,
        retry_at: maybe_int(27)?.map(UnixMillis),
        resumed: small(int(28)?)?,
        parked_ms: Millis(int(29)?),
        parked_at: maybe_int(30)?.map(UnixMillis),
    })
}

/// Lines of `position round kind key request answer`, the last three in hexadecimal.
fn questions(lines: &str) -> Result<Vec<Question>, StoreError> {
    let mut found = Vec::new();
    for line in lines.lines() {
        let bad = || damaged("question");
        let mut part = line.split(' ');
        let mut next = || part.next().ok_or_else(bad);
        let position: u32 = next()?.parse().map_err(|_| bad())?;
        let round = next()?.parse().map_err(|_| bad())?;
        let kind = match next()? {
            "form" => QuestionKind::Form,
            "url" => QuestionKind::Url,
            "sampling" => QuestionKind::Sampling,
            "roots" => QuestionKind::Roots,
            _ => return Err(bad()),
        };
        let key = text(unhex(next()?).ok_or_else(bad)?, "question")?;
        let request = parse::<serde_json::Value>(&unhex(next()?).ok_or_else(bad)?, "question")?;
        let answer = match next()? {
            "" => None,
            hex => Some(parse::<Answer>(&unhex(hex).ok_or_else(bad)?, "answer")?),
        };
        found.push((position, Question { key, round, kind, request: request.into(), answer }));
    }
    found.sort_by_key(|(position, _)| *position);
    Ok(found.into_iter().map(|(_, q)| q).collect())
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    hex.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [a, b] => u8::try_from(digit(*a)? << 4 | digit(*b)?).ok(),
            _ => None,
        })
        .collect()
}

/// `id, principal, status, reason, expired_at`.
pub(super) fn tombstone(row: &SqliteRow) -> Result<Tombstone, StoreError> {
    Ok(Tombstone {
        id: TaskId(uuid(row.try_get(0)?, "id")?),
        principal: Principal::from_stored(row.try_get(1)?),
        status: status(row.try_get(2)?)?,
        reason: row.try_get::<Option<Vec<u8>>, _>(3)?.map(|r| text(r, "reason")).transpose()?,
        expired_at: UnixMillis(unsigned(row.try_get(4)?, "time")?),
    })
}

/// The columns of `PLUGINS`.
pub(super) fn plugin(row: &SqliteRow) -> Result<PluginRow, StoreError> {
    let maybe_digest = |i: usize| -> Result<Option<Digest>, StoreError> {
        row.try_get::<Option<&[u8]>, _>(i)?.map(digest).transpose()
    };
    Ok(PluginRow {
        name: row.try_get(0)?,
        digest: maybe_digest(1)?,
        granted: maybe_digest(2)?,
        policy: text(row.try_get(3)?, "policy")?,
        without_grants: row.try_get::<i64, _>(4)? != 0,
        tools: parse(row.try_get(5)?, "list of tools")?,
        prompts: parse(row.try_get(9)?, "list of prompts")?,
        resources: parse(row.try_get(10)?, "list of resources")?,
        templates: parse(row.try_get(11)?, "list of templates")?,
        listed: text(row.try_get(6)?, "plugin's lists")?,
        adopted_at: UnixMillis(unsigned(row.try_get(7)?, "time")?),
        refusal: row.try_get::<Option<Vec<u8>>, _>(8)?.map(|r| text(r, "refusal")).transpose()?,
    })
}
