//! Layby: a host for MCP tools that third parties ship as WebAssembly components.
//!
//! Each folder is one room; imports point down this list only (`ARCHITECTURE.md`):
//! `commands`, `http`, `mcp`, `runs`, `tasks`, `plugins`, `capabilities`, `engine`,
//! `journal`, `store`, `config`, `base`.

pub mod base;
pub mod capabilities;
pub mod commands;
pub mod config;
pub mod engine;
pub mod http;
pub mod journal;
pub mod mcp;
pub mod plugins;
pub mod runs;
pub mod store;
pub mod tasks;
