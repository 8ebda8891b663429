//! Between rows and values.

use super::sql::Bulk;
use crate::{
    base::{Blob, BootId, Digest, Millis, Principal, TaskId, UnixMillis},
    store::{
        Answer, End, IdempotencyKey, PluginRow, Question, Revoked, StoreError, Task, Tombstone,
        values::{
            JournalRow, Part, Sink, damaged, digest, kind_of, parse, signed, small, status, text, unsigned,
            uuid,
        },
    },
};
use sqlx::{
    Arguments as _, Row as _, SqliteConnection,
    sqlite::{SqliteArguments, SqliteRow},
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

impl Sink for Rows {
    fn maybe_int(&mut self, n: Option<u64>) -> &mut Self {
        self.values.push(n.map_or(Value::Null, |n| Value::Int(signed(n))));
        self
    }

    fn bool(&mut self, b: bool) -> &mut Self {
        self.int(u64::from(b))
    }

    fn text(&mut self, t: &str) -> &mut Self {
        self.bytes += t.len();
        self.values.push(Value::Text(t.to_owned()));
        self
    }

    fn name(&mut self, t: &str) -> &mut Self {
        self.text(t)
    }

    fn maybe_bytes(&mut self, b: Option<impl Into<Vec<u8>>>) -> &mut Self {
        let value = b.map_or(Value::Null, |b| Value::Bytes(b.into()));
        if let Value::Bytes(b) = &value {
            self.bytes += b.len();
        }
        self.values.push(value);
        self
    }
}

impl Rows {
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
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

/// A row of `JOURNAL`, for `values::journal`.
pub(super) fn piece(row: &SqliteRow) -> Result<JournalRow, StoreError> {
    let part = match (row.try_get::<Option<i64>, _>(1)?, row.try_get::<Option<&[u8]>, _>(2)?) {
        (None, _) => Part::Nothing,
        (Some(n), None) => Part::Piece(n, row.try_get(3)?),
        (Some(n), Some(name)) => Part::Blob(n, Blob { digest: digest(name)?.0, bytes: row.try_get(3)? }),
    };
    Ok(JournalRow { counted: row.try_get(0)?, part })
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
        replayed: int(31)?,
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
        let kind = kind_of(next()?)?;
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

/// The columns of `REVOKED`.
pub(super) fn revoked(row: &SqliteRow) -> Result<Revoked, StoreError> {
    let reason: Option<Vec<u8>> = row.try_get(2)?;
    Ok(Revoked {
        digest: digest_row(row)?,
        at: UnixMillis(unsigned(row.try_get(1)?, "time")?),
        reason: reason.map(|bytes| text(bytes, "reason")).transpose()?,
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
