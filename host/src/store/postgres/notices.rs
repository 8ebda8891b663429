//! What one process tells the others through the server (`LISTEN`, `NOTIFY`): hints, so that they need not
//! wait for their next look. Nothing depends on their arrival.

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use sqlx::Pool;
use sqlx_postgres::{PgListener, Postgres};

use crate::{
    base::{BootId, TaskId},
    config::StoreConfig,
    store::{Hint, Task, batch::Batch, values::ready_at},
};

/// The channel; ids of other hosts' tasks on the same server are unknown here, and do no harm.
const CHANNEL: &str = "layby";

/// Ids in one notice: 36 bytes each, of the 8,000 that PostgreSQL takes.
const IDS: usize = 200;

/// The notice of a batch that `me` writes, if anybody needs one.
pub(super) fn of(batch: &Batch<'_>, me: Option<BootId>) -> Option<String> {
    let (mut ids, mut ready) = (Vec::new(), false);
    for (was, task) in batch.changed_tasks() {
        match task.holder {
            Some(holder) if Some(holder) != me && asks(was, task) => ids.push(task.id),
            Some(_) => {}
            None => ready |= ready_at(task).is_some_and(|at| at.0 == 0),
        }
    }
    if ids.len() > IDS {
        return Some("*".into());
    }
    let words = ids.iter().map(ToString::to_string).chain(ready.then(|| "+".to_owned()));
    let text = words.collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// True where the holder should look: a cancel, or an answer.
fn asks(was: &Task, task: &Task) -> bool {
    let answered = |t: &Task| t.questions.iter().filter(|q| q.answer.is_some()).count();
    was.cancel_requested != task.cancel_requested || answered(was) != answered(task)
}

fn read(notice: &str) -> Vec<Hint> {
    let hint = |word: &str| match word {
        "+" => Some(Hint::Resumable),
        "*" => Some(Hint::Any),
        id => id.parse::<TaskId>().ok().map(Hint::Task),
    };
    notice.split(' ').filter_map(hint).collect()
}

struct Listening {
    pool: Pool<Postgres>,
    listener: Option<PgListener>,
}

impl Listening {
    /// The next notice. After a lost connection, [`Hint::Any`]: nobody knows what was missed.
    async fn next(&mut self) -> Option<Vec<Hint>> {
        loop {
            let heard = match &mut self.listener {
                Some(listener) => listener.try_recv().await,
                None => match self.listen().await {
                    Ok(listener) => {
                        self.listener = Some(listener);
                        return Some(vec![Hint::Any]);
                    }
                    Err(e) => Err(e),
                },
            };
            match heard {
                Ok(Some(notice)) => return Some(read(notice.payload())),
                Ok(None) => return Some(vec![Hint::Any]),
                Err(sqlx::Error::PoolClosed) => return None,
                Err(e) => {
                    tracing::debug!(error = %e, "no notices from the database; trying again");
                    self.listener = None;
                    tokio::time::sleep(StoreConfig::RECONNECT.duration()).await;
                }
            }
        }
    }

    async fn listen(&self) -> Result<PgListener, sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }
}

/// Everything that is heard, until `pool`, which is for this alone, is closed.
pub(super) fn stream(pool: Pool<Postgres>) -> BoxStream<'static, Hint> {
    let start = Listening { pool, listener: None };
    let heard = stream::unfold(start, |mut listening| async {
        let hints = listening.next().await?;
        Some((stream::iter(hints), listening))
    });
    heard.flatten().boxed()
}
