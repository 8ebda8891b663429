//! Lines on their way to standard output. Who prints never waits for who reads: a terminal that is stopped, or a pipe
//! that nobody empties, would hold up the host, its plugins and the end of the command.

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::config::DevRules;

/// Lines that wait.
#[derive(Debug, Default)]
struct State {
    lines: VecDeque<String>,
    /// Bytes of them, with those of the line that is being written.
    bytes: usize,
    /// Lines that found no room since the last one that did.
    lost: u64,
    /// Nobody can read any more.
    gone: bool,
}

/// A queue of lines, with one thread that writes them.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// There is something to write, or all of it is written.
    turn: Condvar,
    /// Bytes have become fewer, or nobody can read any more.
    eased: Notify,
}

impl Queue {
    pub(super) const fn new() -> Self {
        let state = State { lines: VecDeque::new(), bytes: 0, lost: 0, gone: false };
        Self { state: Mutex::new(state), turn: Condvar::new(), eased: Notify::const_new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. Where there is no room it is lost; `note` makes the line that later says how many were.
    pub(super) fn push(&self, line: String, note: impl FnOnce(u64) -> String) {
        let mut state = self.state();
        if state.gone {
            return;
        }
        if state.bytes + line.len() > DevRules::UNREAD {
            state.lost += 1;
            return;
        }
        if state.lost > 0 {
            let note = note(std::mem::take(&mut state.lost));
            state.add(note);
        }
        state.add(line);
        self.turn.notify_all();
    }

    /// Returns once there is room for what can wait. Cancel-safe.
    pub(super) async fn room(&self) {
        self.until(|state| state.gone || state.bytes <= DevRules::UNREAD_OUTPUT).await;
    }

    /// Returns once nobody can read any more. Cancel-safe.
    pub(super) async fn gone(&self) {
        self.until(|state| state.gone).await;
    }

    async fn until(&self, fits: impl Fn(&State) -> bool) {
        loop {
            let mut eased = std::pin::pin!(self.eased.notified());
            // What happens after the look is told.
            eased.as_mut().enable();
            if fits(&self.state()) {
                return;
            }
            eased.await;
        }
    }

    /// Waits until all is written or nobody can read any more, for `most` at most. Blocking.
    pub(super) fn finish(&self, most: Duration) {
        let open = |state: &mut State| state.bytes > 0 && !state.gone;
        // Late or not: the command ends.
        drop(self.turn.wait_timeout_while(self.state(), most, open));
    }

    /// Writes what comes to `out`, until nobody can read any more. Blocking.
    pub(super) fn write_to(&self, mut out: impl Write) {
        loop {
            let waiting = |state: &mut State| state.lines.is_empty();
            let state = self.turn.wait_while(self.state(), waiting);
            let line = state.unwrap_or_else(PoisonError::into_inner).lines.pop_front();
            let Some(line) = line else { continue };
            let gone = write(&mut out, line.as_bytes()).is_err_and(|e| is_gone(&e));
            let mut state = self.state();
            state.bytes -= line.len();
            state.gone = gone;
            if gone {
                state.lines.clear();
                state.bytes = 0;
            }
            drop(state);
            self.turn.notify_all();
            self.eased.notify_waiters();
            if gone {
                return;
            }
        }
    }
}

impl State {
    fn add(&mut self, mut line: String) {
        line.push('\n');
        self.bytes += line.len();
        self.lines.push_back(line);
    }
}

/// Whether the reader has gone: a closed pipe, or a terminal that is no more. A full disk is only a lost line.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// All of `bytes`, also where whoever started the command has made the stream a non-blocking one.
fn write(out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(DevRules::UNREAD_PAUSE.duration());
            }
            Err(e) => return Err(e),
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        io::{BufRead as _, BufReader},
        sync::Arc,
    };

    use super::*;

    fn note(lost: u64) -> String {
        format!("lost {lost}")
    }

    #[tokio::test]
    async fn who_prints_never_waits_and_what_is_lost_is_counted() {
        let queue = Arc::new(Queue::new());
        let line = "x".repeat(1000);
        let fit = (DevRules::UNREAD + 1) / (line.len() + 1);
        for _ in 0..fit + 7 {
            queue.push(line.clone(), note);
        }
        assert!(tokio::time::timeout(Duration::from_millis(20), queue.room()).await.is_err());
        queue.finish(Duration::from_millis(20));
        let (reader, writer) = io::pipe().unwrap();
        let writing = Arc::clone(&queue);
        std::thread::spawn(move || writing.write_to(writer));
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        assert!(lines.by_ref().take(fit).all(|one| one == line));
        queue.room().await;
        queue.push("after".into(), note);
        assert_eq!(lines.by_ref().take(2).collect::<Vec<_>>(), ["lost 7", "after"]);
        queue.finish(Duration::from_secs(30));
        assert_eq!(queue.state().bytes, 0);
        drop(lines);
        queue.push("to nobody".into(), note);
        queue.gone().await;
        queue.room().await;
        queue.push("more".into(), note);
        assert!(queue.state().lines.is_empty());
    }
}
