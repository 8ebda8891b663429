//! Journals as the database has them, cut after any entry. By the description of the format and not by the host's code.

use sha2::{Digest as _, Sha256};
use sqlx::{Executor as _, SqliteConnection};
use uuid::Uuid;

/// Bytes of the checksum at the end of a piece.
const CHECKSUM: usize = 8;
/// `start` of `request-input`.
const ASKS: u8 = 0x35;

/// The journal of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The first piece.
    pub header: Vec<u8>,
    /// All entries, each encoded.
    pub entries: Vec<Vec<u8>>,
}

impl Journal {
    /// Of the task whose id has these bytes.
    ///
    /// # Panics
    /// If it is not whole.
    pub async fn of(c: &mut SqliteConnection, task: &[u8]) -> Self {
        let query = sqlx::query_scalar("SELECT bytes FROM journals WHERE task = ?1 ORDER BY n").bind(task);
        let mut pieces: Vec<Vec<u8>> = query.fetch_all(c).await.expect("a journal");
        let header = pieces.remove(0);
        let (mut last, mut entries) = (checksum(&header).to_vec(), Vec::new());
        for piece in &pieces {
            let (body, sum) = piece.split_at(piece.len() - CHECKSUM);
            assert_eq!(sealed(&last, body)[body.len()..], *sum, "a checksum");
            last = sum.to_vec();
            let mut left = &body[1..];
            assert_eq!(varint(&mut left), entries.len() as u64, "the number of the first entry");
            while !left.is_empty() {
                let begin = left;
                skip(&mut left);
                entries.push(begin[..begin.len() - left.len()].to_vec());
            }
        }
        Self { header, entries }
    }

    /// The pieces of the same journal, cut off after `entries`.
    pub fn cut(&self, entries: usize) -> Vec<Vec<u8>> {
        let mut pieces = vec![self.header.clone()];
        if entries > 0 {
            let body = [&[self.header[0], 0], &self.entries[..entries].concat()[..]].concat();
            pieces.push(sealed(checksum(&self.header), &body));
        }
        pieces
    }

    /// How many questions were asked within the first `entries`.
    pub fn asked(&self, entries: usize) -> usize {
        self.entries[..entries].iter().filter(|entry| entry[0] == ASKS).count()
    }
}

/// Puts a task beside the ended one `task` that was stopped after so many entries of its journal: with the questions
/// that were asked by then, and their answers. To be done while no host runs; the new task's id.
///
/// # Panics
/// If the database does not have such a task.
pub async fn stop_again(c: &mut SqliteConnection, task: &[u8], journal: &Journal, entries: usize) -> Uuid {
    let id = Uuid::new_v4();
    let (new, pieces) = (id.as_bytes().to_vec(), journal.cut(entries));
    let asked = i64::try_from(journal.asked(entries)).expect("a number");
    let counted = i64::try_from(pieces.len()).expect("a number");
    c.execute("CREATE TEMP TABLE IF NOT EXISTS one AS SELECT * FROM tasks LIMIT 0").await.expect("a table");
    c.execute("DELETE FROM one").await.expect("an empty table");
    let copy = "INSERT INTO one SELECT * FROM tasks WHERE id = ?1";
    sqlx::query(copy).bind(task).execute(&mut *c).await.expect("the task");
    let change =
        "UPDATE one SET n = NULL, id = ?1, pieces = ?2, questions = ?3, status = 'working', outcome = NULL,
        status_message = NULL, holder = NULL, wake_at = NULL, attempts = 0, retry_at = NULL, resumed = 0,
        parked_at = NULL, ready_at = 0, due_at = expires_at, active_left = 600000";
    sqlx::query(change).bind(&new).bind(counted).bind(asked).execute(&mut *c).await.expect("a change");
    c.execute("INSERT INTO tasks SELECT * FROM one").await.expect("another task");
    let questions = "INSERT INTO questions (task, position, round, kind, key, request, answer)
        SELECT ?1, position, round, kind, key, request, answer FROM questions WHERE task = ?2 AND position < ?3";
    sqlx::query(questions).bind(&new).bind(task).bind(asked).execute(&mut *c).await.expect("its questions");
    for (n, piece) in (0_i64..).zip(pieces) {
        let insert = sqlx::query("INSERT INTO journals (task, n, bytes) VALUES (?1, ?2, ?3)");
        insert.bind(&new).bind(n).bind(piece).execute(&mut *c).await.expect("a piece");
    }
    id
}

fn checksum(piece: &[u8]) -> &[u8] {
    &piece[piece.len() - CHECKSUM..]
}

fn sealed(last: &[u8], body: &[u8]) -> Vec<u8> {
    let sum = Sha256::new().chain_update(last).chain_update(body).finalize();
    [body, &sum[..CHECKSUM]].concat()
}

/// Goes past one entry.
fn skip(left: &mut &[u8]) {
    let tag = left[0];
    *left = &left[1..];
    let bytes = |left: &mut &[u8]| {
        let len = varint(left);
        *left = &left[usize::try_from(len).expect("a length")..];
    };
    match tag & 0xf0 {
        0x10 => drop(varint(left)),
        0x20 => *left = &left[4..],
        0x30 => {
            *left = &left[6..];
            varint(left);
        }
        0x40 | 0x60 => {
            varint(left);
            bytes(left);
        }
        0x50 => {
            varint(left);
            *left = &left[8..];
            varint(left);
        }
        0x70 | 0x80 => {
            varint(left);
            varint(left);
            *left = &left[32..];
        }
        _ => panic!("no known entry: {tag:02x}"),
    }
}

fn varint(left: &mut &[u8]) -> u64 {
    let len = left.iter().position(|byte| byte & 0x80 == 0).expect("the end of a number") + 1;
    let number = left[..len].iter().rev().fold(0, |n, byte| n << 7 | u64::from(byte & 0x7f));
    *left = &left[len..];
    number
}
