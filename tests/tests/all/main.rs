//! Black-box tests: one file per topic, each promise of the design through the real binary.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bridge;
mod cancel;
mod catalog;
mod clients;
mod commands;
mod docs;
mod extension;
mod grants;
mod hardening;
mod http;
mod idempotency;
mod inline;
mod input;
mod legacy;
mod library;
mod limits;
mod listen;
mod log;
mod mrtr;
mod promote;
mod prompts;
mod reload;
mod restart;
mod stdio;
mod trace;
