//! Between rows and values.

use sqlx::{Arguments as _, Row as _};
use sqlx_postgres::{PgArguments, PgConnection, PgRow};

use super::sql::{Bulk, Kind};
use crate::{
    base::{Blob, BootId, Digest, Millis, Principal, TaskId, UnixMillis},
    config::StoreConfig,
    store::{
        IdempotencyKey, PluginRow, Question, Revoked, StoreError, Task, Tombstone,
        values::{
            JournalRow, Part, Sink, damaged, digest, kind_of, parse, signed, small, status, text, unsigned,
            uuid,
        },
    },
};

/// The values of one column.
enum Column {
    Ints(Vec<Option<i64>>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
    Bytes(Vec<Option<Vec<u8>>>),
}

/// Rows on their way to one statement, by columns.
pub(super) struct Rows {
    bulk: &'static Bulk,
    columns: Vec<Column>,
    /// The column that the next value is of.
    next: usize,
    /// Bytes of texts and blobs.
    size: usize,
}

impl Rows {
    pub(super) fn new(bulk: &'static Bulk) -> Self {
        let column = |(_, kind): &(&str, Kind)| match kind {
            Kind::Int => Column::Ints(Vec::new()),
            Kind::Bool => Column::Bools(Vec::new()),
            Kind::Text => Column::Texts(Vec::new()),
            Kind::Bytes => Column::Bytes(Vec::new()),
        };
        Self { bulk, columns: bulk.columns.iter().map(column).collect(), next: 0, size: 0 }
    }

    fn column(&mut self) -> Option<&mut Column> {
        let at = self.next;
        self.next = (at + 1) % self.columns.len().max(1);
        self.columns.get_mut(at)
    }

    /// How many there are.
    fn len(&self) -> usize {
        match self.columns.first() {
            Some(Column::Ints(v)) => v.len(),
            Some(Column::Bools(v)) => v.len(),
            Some(Column::Texts(v)) => v.len(),
            Some(Column::Bytes(v)) => v.len(),
            None => 0,
        }
    }

    /// A bug: the server refuses columns of different lengths.
    fn misplaced(&self, what: &str) {
        tracing::error!(statement = self.bulk.text(), "{what} for another column");
    }

    fn arguments(&mut self) -> Result<PgArguments, StoreError> {
        let mut arguments = PgArguments::default();
        for column in std::mem::take(&mut self.columns) {
            let added = match column {
                Column::Ints(v) => arguments.add(v),
                Column::Bools(v) => arguments.add(v),
                Column::Texts(v) => arguments.add(v),
                Column::Bytes(v) => arguments.add(v),
            };
            added.map_err(|e| StoreError::Other(e.to_string()))?;
        }
        *self = Self::new(self.bulk);
        Ok(arguments)
    }

    /// Large results must not all stand in memory twice: past this size what there is goes out.
    pub(super) async fn send_if_full(&mut self, c: &mut PgConnection) -> Result<(), StoreError> {
        if self.size >= StoreConfig::STATEMENT_SIZE.as_usize() {
            self.send(c).await?;
        }
        Ok(())
    }

    /// True where there was something to send; an error where not every row was written.
    pub(super) async fn send(&mut self, c: &mut PgConnection) -> Result<bool, StoreError> {
        let rows = self.len() as u64;
        if rows == 0 {
            return Ok(false);
        }
        let arguments = self.arguments()?;
        let written = sqlx::query_with(self.bulk.text(), arguments).execute(c).await?.rows_affected();
        if written == rows {
            Ok(true)
        } else {
            Err(StoreError::Other(format!(
                "{written} of {rows} rows were written: one was not as it was read"
            )))
        }
    }

    /// The rows that it selects.
    pub(super) async fn select(mut self, c: &mut PgConnection) -> Result<Vec<PgRow>, StoreError> {
        let arguments = self.arguments()?;
        Ok(sqlx::query_with(self.bulk.text(), arguments).fetch_all(c).await?)
    }
}

impl Sink for Rows {
    fn maybe_int(&mut self, n: Option<u64>) -> &mut Self {
        match self.column() {
            Some(Column::Ints(all)) => all.push(n.map(signed)),
            _ => self.misplaced("a number"),
        }
        self
    }

    fn bool(&mut self, b: bool) -> &mut Self {
        match self.column() {
            Some(Column::Bools(all)) => all.push(b),
            _ => self.misplaced("a boolean"),
        }
        self
    }

    fn text(&mut self, t: &str) -> &mut Self {
        self.size += t.len();
        match self.column() {
            Some(Column::Texts(all)) => all.push(t.to_owned()),
            _ => self.misplaced("a text"),
        }
        self
    }

    /// As bytes: a name may have a character that PostgreSQL's texts cannot hold.
    fn name(&mut self, t: &str) -> &mut Self {
        self.bytes(t.as_bytes())
    }

    fn maybe_bytes(&mut self, b: Option<impl Into<Vec<u8>>>) -> &mut Self {
        let b: Option<Vec<u8>> = b.map(Into::into);
        self.size += b.as_ref().map_or(0, Vec::len);
        match self.column() {
            Some(Column::Bytes(all)) => all.push(b),
            _ => self.misplaced("bytes"),
        }
        self
    }
}

/// A column of text that is kept as bytes.
fn words(row: &PgRow, i: usize, what: &str) -> Result<String, StoreError> {
    text(row.try_get(i)?, what)
}

fn maybe_words(row: &PgRow, i: usize, what: &str) -> Result<Option<String>, StoreError> {
    row.try_get::<Option<Vec<u8>>, _>(i)?.map(|bytes| text(bytes, what)).transpose()
}

/// The single column of a digest.
pub(super) fn digest_row(row: &PgRow) -> Result<Digest, StoreError> {
    digest(row.try_get::<&[u8], _>(0)?)
}

/// The single column of an id.
pub(super) fn id(row: &PgRow) -> Result<TaskId, StoreError> {
    uuid(row.try_get(0)?, "id").map(TaskId)
}

/// A row of the columns that `select_tasks!` names.
pub(super) fn task(row: &PgRow) -> Result<Task, StoreError> {
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
        principal: Principal::from_stored(&words(row, 1, "principal")?),
        tool: words(row, 2, "tool")?,
        plugin: words(row, 3, "plugin")?,
        digest: digest(row.try_get(4)?)?,
        status: status(row.try_get(5)?)?,
        status_message: maybe_words(row, 6, "message")?,
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
        resume_on_timeout: row.try_get(17)?,
        key,
        revealed: row.try_get(20)?,
        end: row.try_get::<Option<&[u8]>, _>(21)?.map(|o| parse(o, "outcome")).transpose()?,
        pieces: small(int(22)?)?,
        pinned: maybe_words(row, 23, "reason")?,
        wake_at: maybe_int(24)?.map(UnixMillis),
        attempts: small(int(25)?)?,
        retry_at: maybe_int(26)?.map(UnixMillis),
        resumed: small(int(27)?)?,
        parked_ms: Millis(int(28)?),
        parked_at: maybe_int(29)?.map(UnixMillis),
        replayed: int(35)?,
        questions: questions(row)?,
    })
}

/// The five arrays from column 30 on.
fn questions(row: &PgRow) -> Result<Vec<Question>, StoreError> {
    let Some(rounds) = row.try_get::<Option<Vec<i64>>, _>(30)? else { return Ok(Vec::new()) };
    let kinds: Vec<String> = row.try_get(31)?;
    let keys: Vec<Vec<u8>> = row.try_get(32)?;
    let requests: Vec<Vec<u8>> = row.try_get(33)?;
    let answers: Vec<Option<Vec<u8>>> = row.try_get(34)?;
    let mut found = Vec::with_capacity(rounds.len());
    let (mut kinds, mut keys) = (kinds.into_iter(), keys.into_iter());
    let (mut requests, mut answers) = (requests.into_iter(), answers.into_iter());
    for round in rounds {
        let (Some(kind), Some(key), Some(request), Some(answer)) =
            (kinds.next(), keys.next(), requests.next(), answers.next())
        else {
            return Err(damaged("question"));
        };
        found.push(Question {
            key: text(key, "question")?,
            round: small(unsigned(round, "round")?)?,
            kind: kind_of(&kind)?,
            request: parse::<serde_json::Value>(&request, "question")?.into(),
            answer: answer.map(|a| parse(&a, "answer")).transpose()?,
        });
    }
    Ok(found)
}

/// A row of `JOURNAL`, for `values::journal`.
pub(super) fn piece(row: &PgRow) -> Result<JournalRow, StoreError> {
    let part = match (row.try_get::<Option<i64>, _>(1)?, row.try_get::<Option<&[u8]>, _>(2)?) {
        (None, _) => Part::Nothing,
        (Some(n), None) => Part::Piece(n, row.try_get(3)?),
        (Some(n), Some(name)) => Part::Blob(n, Blob { digest: digest(name)?.0, bytes: row.try_get(3)? }),
    };
    Ok(JournalRow { counted: row.try_get(0)?, part })
}

/// `principal, count`.
pub(super) fn count(row: &PgRow) -> Result<(Principal, u64), StoreError> {
    let n: i64 = row.try_get(1)?;
    Ok((Principal::from_stored(&words(row, 0, "principal")?), u64::try_from(n).unwrap_or(0)))
}

/// `id, principal, status, reason, expired_at`.
pub(super) fn tombstone(row: &PgRow) -> Result<Tombstone, StoreError> {
    Ok(Tombstone {
        id: TaskId(uuid(row.try_get(0)?, "id")?),
        principal: Principal::from_stored(&words(row, 1, "principal")?),
        status: status(row.try_get(2)?)?,
        reason: maybe_words(row, 3, "reason")?,
        expired_at: UnixMillis(unsigned(row.try_get(4)?, "time")?),
    })
}

/// The columns of `REVOKED`.
pub(super) fn revoked(row: &PgRow) -> Result<Revoked, StoreError> {
    Ok(Revoked {
        digest: digest_row(row)?,
        at: UnixMillis(unsigned(row.try_get(1)?, "time")?),
        reason: maybe_words(row, 2, "reason")?,
    })
}

/// The columns of `PLUGINS`.
pub(super) fn plugin(row: &PgRow) -> Result<PluginRow, StoreError> {
    let maybe_digest = |i: usize| -> Result<Option<Digest>, StoreError> {
        row.try_get::<Option<&[u8]>, _>(i)?.map(digest).transpose()
    };
    Ok(PluginRow {
        name: words(row, 0, "name")?,
        digest: maybe_digest(1)?,
        granted: maybe_digest(2)?,
        policy: words(row, 3, "policy")?,
        without_grants: row.try_get(4)?,
        tools: parse(row.try_get(5)?, "list of tools")?,
        prompts: parse(row.try_get(6)?, "list of prompts")?,
        resources: parse(row.try_get(7)?, "list of resources")?,
        templates: parse(row.try_get(8)?, "list of templates")?,
        listed: words(row, 9, "plugin's lists")?,
        adopted_at: UnixMillis(unsigned(row.try_get(10)?, "time")?),
        refusal: maybe_words(row, 11, "refusal")?,
    })
}
