//! `wasi:io/poll`. Grant: none needed. Class: wait where all pollables are timers (a sleep), else read.
//! Records: `start` and `end` with the indices that were ready; `pollable.ready` its answer.

use std::{collections::HashMap, future::Future, time::Duration};

use wasmtime::{
    StoreContextMut,
    component::{Linker, Resource},
};
use wasmtime_wasi::p2::{DynPollable, bindings::io::poll};

use super::{Abort, State, state::Ended};
use crate::journal::{Call, Started};

/// Shorter sleeps are not worth telling anybody of: none is parked.
const LONG: Duration = Duration::from_secs(1);

/// The pollables of a run that are timers, with their deadlines in its monotonic nanoseconds.
#[derive(Default)]
pub(super) struct Timers(HashMap<u32, u64>);

impl Timers {
    pub(super) fn insert(&mut self, rep: u32, deadline: u64) {
        self.0.insert(rep, deadline);
    }

    fn remove(&mut self, rep: u32) {
        self.0.remove(&rep);
    }

    fn deadline(&self, rep: u32) -> Option<u64> {
        self.0.get(&rep).copied()
    }
}

/// Adds the interface, and again its two waits in a form that can read the fuel.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Answer<'a, T> = Box<dyn Future<Output = wasmtime::Result<T>> + Send + 'a>;
    poll::add_to_linker::<State, wasmtime::component::HasSelf<State>>(linker, |s| s)?;
    let mut io = linker.instance("wasi:io/poll@0.2.12")?;
    io.func_wrap_async(
        "poll",
        |mut store: StoreContextMut<'_, State>, (list,): (Vec<Resource<DynPollable>>,)| -> Answer<'_, _> {
            Box::new(async move {
                let fuel = store.get_fuel()?;
                Ok((store.data_mut().wait(list, fuel).await?,))
            })
        },
    )?;
    io.func_wrap_async(
        "[method]pollable.block",
        |mut store: StoreContextMut<'_, State>, (one,): (Resource<DynPollable>,)| -> Answer<'_, ()> {
            Box::new(async move {
                let fuel = store.get_fuel()?;
                store.data_mut().wait(vec![one], fuel).await.map(drop)
            })
        },
    )
}

impl State {
    async fn wait(&mut self, list: Vec<Resource<DynPollable>>, fuel: u64) -> wasmtime::Result<Vec<u32>> {
        if list.is_empty() {
            wasmtime::bail!("`poll` was called with no pollable: it would wait for ever");
        }
        let deadlines: Vec<Option<u64>> = list.iter().map(|p| self.timers.deadline(p.rep())).collect();
        let mut request = Vec::with_capacity(9 * list.len());
        for (p, deadline) in list.iter().zip(&deadlines) {
            request.push(u8::from(deadline.is_some()));
            request.extend(deadline.unwrap_or(p.rep().into()).to_le_bytes());
        }
        let started = self.journal.start(Call::Poll, &request, fuel).map_err(Ended::mismatch)?;
        let ready = match started {
            Started::Replayed(answer) => {
                let ready = indices(&answer, list.len()).ok_or_else(unreadable)?;
                self.settle(&list, &ready, &deadlines).await?;
                ready
            }
            Started::Again | Started::Fresh => self.wait_live(list, &deadlines).await?,
        };
        for &index in &ready {
            if let Some(deadline) = deadlines[index as usize] {
                self.clock.reached(deadline);
                self.waited();
            }
        }
        Ok(ready)
    }

    /// Waits until one of `list` is ready.
    async fn wait_live(
        &mut self,
        list: Vec<Resource<DynPollable>>,
        deadlines: &[Option<u64>],
    ) -> wasmtime::Result<Vec<u32>> {
        let all_timers = deadlines.iter().all(Option::is_some);
        let first = deadlines.iter().flatten().min().filter(|_| all_timers);
        let left = first.map(|&deadline| self.clock.left(deadline)).filter(|left| *left >= LONG);
        if let Some(left) = left {
            self.caller.sleeps(left);
        }
        let mut ready = match self.clock.steps_to(deadlines) {
            None => poll::Host::poll(&mut self.table, list).await?,
            Some(first) => {
                tokio::time::sleep(self.clock.left(first)).await;
                let due = (0..).zip(deadlines).filter(|(_, deadline)| deadline.is_some_and(|d| d <= first));
                due.map(|(index, _)| index).collect()
            }
        };
        if left.is_some() {
            self.caller.woke();
        }
        // By index, whatever order the futures were asked in.
        ready.sort_unstable();
        let answer: Vec<u8> = ready.iter().flat_map(|index| index.to_le_bytes()).collect();
        self.journal.end(&answer, self.clock.monotonic());
        Ok(ready)
    }

    /// A recorded wait is not waited for again; but what was ready then is ready now before it returns, because the
    /// guest uses it next.
    async fn settle(
        &mut self,
        list: &[Resource<DynPollable>],
        ready: &[u32],
        deadlines: &[Option<u64>],
    ) -> wasmtime::Result<()> {
        for &index in ready {
            let at = index as usize;
            if deadlines[at].is_none() {
                let pollable = Resource::new_borrow(list[at].rep());
                poll::HostPollable::block(&mut self.table, pollable).await?;
            }
        }
        Ok(())
    }
}

/// What the `end` of a poll of `len` pollables has: at least one index, in order, each within the list.
fn indices(answer: &[u8], len: usize) -> Option<Vec<u32>> {
    let (chunks, rest) = answer.as_chunks::<4>();
    let ready: Vec<u32> = chunks.iter().map(|c| u32::from_le_bytes(*c)).collect();
    let good = rest.is_empty() && !ready.is_empty() && ready.is_sorted();
    (good && ready.iter().all(|&index| (index as usize) < len)).then_some(ready)
}

fn unreadable() -> Ended {
    Ended(Abort::Host("the answer of a poll in the journal cannot be read".into()))
}

impl poll::Host for State {
    async fn poll(&mut self, list: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        self.wait(list, 0).await
    }
}

impl poll::HostPollable for State {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        let deadline = self.timers.deadline(pollable.rep());
        let request = pollable.rep().to_le_bytes();
        let ready = match self.journal.start(Call::Ready, &request, 0).map_err(Ended::mismatch)? {
            Started::Replayed(answer) => {
                let ready = answer == [1];
                if ready && deadline.is_none() {
                    poll::HostPollable::block(&mut self.table, pollable).await?;
                }
                ready
            }
            Started::Again | Started::Fresh => {
                let ready = poll::HostPollable::ready(&mut self.table, pollable).await?;
                self.journal.end(&[u8::from(ready)], self.clock.monotonic());
                ready
            }
        };
        if let Some(deadline) = deadline.filter(|_| ready) {
            self.clock.reached(deadline);
        }
        Ok(ready)
    }

    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.wait(vec![pollable], 0).await.map(drop)
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.timers.remove(pollable.rep());
        poll::HostPollable::drop(&mut self.table, pollable)
    }
}

#[cfg(test)]
mod tests {
    use super::indices;

    #[test]
    fn a_recorded_answer_fits_its_list() {
        let answer = |list: &[u32]| list.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(indices(&answer(&[0, 2]), 3), Some(vec![0, 2]));
        for (bad, len) in [(answer(&[]), 1), (answer(&[1]), 1), (answer(&[1, 0]), 2), (vec![0; 5], 9)] {
            assert_eq!(indices(&bad, len), None, "{bad:?} of {len}");
        }
    }
}
