//! `wasi:io/poll`. Grant: none needed. Class: wait where all pollables are timers (a sleep), else read.
//! Records: `start` and `end` with the indices that were ready; `pollable.ready` its answer.

use std::future::Future;

use wasmtime::{
    StoreContextMut,
    component::{Linker, Resource},
};
use wasmtime_wasi::p2::{DynPollable, bindings::io::poll};

use super::State;
use crate::journal::Call;

/// The pollables of a run that are timers, with their deadlines in its monotonic nanoseconds.
/// A list: guests have a handful at once.
#[derive(Default)]
pub(super) struct Timers(Vec<(u32, u64)>);

impl Timers {
    pub(super) fn insert(&mut self, rep: u32, deadline: u64) {
        self.0.push((rep, deadline));
    }

    fn remove(&mut self, rep: u32) {
        self.0.retain(|t| t.0 != rep);
    }

    fn deadline(&self, rep: u32) -> Option<u64> {
        self.0.iter().find(|t| t.0 == rep).map(|t| t.1)
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
        self.journal.start(Call::Poll, &request, fuel);
        let mut ready = poll::Host::poll(&mut self.table, list).await?;
        // By index, whatever order the futures were asked in.
        ready.sort_unstable();
        let mut answer = Vec::with_capacity(4 * ready.len());
        for &index in &ready {
            answer.extend(index.to_le_bytes());
            if let Some(deadline) = deadlines[index as usize] {
                self.clock.reached(deadline);
            }
        }
        self.journal.end(&answer);
        Ok(ready)
    }
}

impl poll::Host for State {
    async fn poll(&mut self, list: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        self.wait(list, 0).await
    }
}

impl poll::HostPollable for State {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        let deadline = self.timers.deadline(pollable.rep());
        self.journal.start(Call::Ready, &pollable.rep().to_le_bytes(), 0);
        let ready = poll::HostPollable::ready(&mut self.table, pollable).await?;
        if let Some(deadline) = deadline.filter(|_| ready) {
            self.clock.reached(deadline);
        }
        self.journal.end(&[u8::from(ready)]);
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
