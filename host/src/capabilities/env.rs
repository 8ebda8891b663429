//! `wasi:cli/environment`, `wasi:cli/exit` and `wasi:config/store`. Grants: `env`, `config`. Class: derived
//! (both are kept with the run's header). Records: the trail has each call.
//!
//! A secret never enters the sandbox: the guest sees a placeholder in its place (see `secrets.rs`).

use wasmtime::component::{ComponentType, HasSelf, Linker, Lower};
use wasmtime_wasi::p2::bindings::cli::{environment, exit};

use super::{Abort, State, secrets::placeholder, state::Ended, wit_call::LogLevel};
use crate::{
    base::{quoted, quoted_key},
    config::EnvValue,
};

/// Bytes of a setting's name in the log.
const KEY: usize = 100;
/// The name that a guest sees as its program's.
const PROGRAM: &str = "plugin";

impl environment::Host for State {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        self.journal.note("environment", &[]);
        let value = |name: &str, value: &EnvValue| match value {
            EnvValue::Plain(text) => text.clone(),
            EnvValue::Secret { .. } | EnvValue::SecretFile { .. } => placeholder(name),
        };
        Ok(self.granted.grants.env.iter().map(|(n, v)| (n.clone(), value(n, v))).collect())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(vec![PROGRAM.into()])
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

impl exit::Host for State {
    fn exit(&mut self, status: Result<(), ()>) -> wasmtime::Result<()> {
        exit::Host::exit_with_code(self, u8::from(status.is_err()))
    }

    fn exit_with_code(&mut self, code: u8) -> wasmtime::Result<()> {
        Err(Ended(Abort::Trap(format!("the plugin called exit({code}) instead of returning a result")))
            .into())
    }
}

/// `wasi:config/store.error`. Reading a table in memory cannot fail, so no case is ever made.
#[derive(ComponentType, Lower)]
#[component(variant)]
#[expect(dead_code, reason = "its shape is the interface's")]
enum ConfigError {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

/// Every version of the interface that components in the wild import, all of the same shape: two drafts and
/// the candidate, a dated draft that one host shipped, and the first draft's older name.
pub(super) const CONFIG: [&str; 4] = [
    "wasi:config/store@0.2.0-draft",
    "wasi:config/store@0.2.0-rc.1",
    "wasi:config/store@0.2.0-draft-2024-09-27",
    "wasi:config/runtime@0.2.0-draft",
];

/// Adds environment, exit and configuration.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    environment::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    exit::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    for name in CONFIG {
        let mut store = linker.instance(name)?;
        store.func_wrap("get", |mut store, (key,): (String,)| {
            let state: &mut State = store.data_mut();
            state.journal.note("config", key.as_bytes());
            let value = state.granted.grants.config.get(&key).cloned();
            if value.is_none() {
                // Many ask for what may be missing.
                let shown = &key[..key.floor_char_boundary(KEY)];
                let line = format!("{} = {}", quoted_key(shown), quoted("…"));
                let text = format!(
                    "there is no setting {shown:?}; to give it one, add {line} to grants.config of this plugin's policy"
                );
                state.tell_once(LogLevel::Info, &text);
            }
            Ok((Ok::<_, ConfigError>(value),))
        })?;
        store.func_wrap("get-all", |mut store, (): ()| {
            let state: &mut State = store.data_mut();
            state.journal.note("config-all", &[]);
            let all: Vec<(String, String)> = state.granted.grants.config.clone().into_iter().collect();
            Ok((Ok::<_, ConfigError>(all),))
        })?;
    }
    Ok(())
}
