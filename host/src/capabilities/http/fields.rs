//! Headers that a guest makes. Wasmtime bounds each object of them; a guest may make thousands, so all of them together
//! count as bytes of the run's HTTP.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::{
    FieldMap, WasiHttpView as _,
    p2::{
        HeaderResult,
        bindings::http::types::{self, HostFields as _},
    },
};

use crate::capabilities::{State, state::Ended};

/// What a header takes beside its name and value, in bytes.
const HEADER: usize = 64;

/// As a component has it.
type Answer<T> = wasmtime::Result<(Result<T, types::HeaderError>,)>;

fn answer<T>(result: HeaderResult<T>) -> Answer<T> {
    Ok((match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.downcast()?),
    },))
}

impl State {
    /// Counts headers that the guest makes.
    fn makes(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let (http, _) = self.http_and_table();
        let shared = &http.hooks.shared;
        if shared.takes(bytes) { Ok(()) } else { Err(Ended(shared.over_bytes()).into()) }
    }
}

fn weight(name: &str, values: &[Vec<u8>]) -> usize {
    values.iter().map(|value| HEADER + name.len() + value.len()).sum()
}

/// Puts counting functions in place of wasmtime's.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Fields = Resource<FieldMap>;
    let mut types = linker.instance("wasi:http/types@0.2.12")?;
    types.func_wrap("[static]fields.from-list", |mut store, (list,): (Vec<(String, Vec<u8>)>,)| {
        let state: &mut State = store.data_mut();
        state.makes(list.iter().map(|(name, value)| HEADER + name.len() + value.len()).sum())?;
        answer(state.http().from_list(list))
    })?;
    types.func_wrap(
        "[method]fields.set",
        |mut store, (fields, name, values): (Fields, String, Vec<Vec<u8>>)| {
            let state: &mut State = store.data_mut();
            state.makes(weight(&name, &values))?;
            answer(state.http().set(fields, name, values))
        },
    )?;
    types.func_wrap(
        "[method]fields.append",
        |mut store, (fields, name, value): (Fields, String, Vec<u8>)| {
            let state: &mut State = store.data_mut();
            state.makes(HEADER + name.len() + value.len())?;
            answer(state.http().append(fields, name, value))
        },
    )?;
    types.func_wrap("[method]fields.clone", |mut store, (fields,): (Fields,)| {
        let state: &mut State = store.data_mut();
        let (_, table) = state.http_and_table();
        // The copy shares what it has until it is changed, and is a copy of all of it then.
        let all = table.get(&fields)?.iter();
        let bytes = all.map(|(name, value)| HEADER + name.as_str().len() + value.len()).sum();
        state.makes(bytes)?;
        Ok((types::HostFields::clone(&mut state.http(), fields)?,))
    })
}
