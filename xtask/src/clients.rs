//! All real clients that the tests drive, installed from their registries.

use std::thread;

use anyhow::{Result, anyhow};

use crate::{
    node::{self, Node},
    python,
};

/// Folders below `tests/clients` with packages of their own: they conflict with each other, or are big.
const NPM: [&str; 5] = ["", "conformance", "legacy", "inspector", "issuer"];

/// Environments by the names of their files, `tests/clients/python/NAME.txt`.
const PYTHON: [&str; 4] = ["fastmcp", "mcp1", "mcp2", "oras"];

/// Installs what is missing, side by side since most of it is waiting for the network; the Node that runs it.
pub(crate) fn install() -> Result<Node> {
    python::ensure_venv()?;
    let node = Node::find()?;
    let found = &node;
    thread::scope(|scope| {
        let npm = NPM.map(|name| scope.spawn(move || found.install(&node::clients().join(name))));
        let python = PYTHON.map(|name| {
            let requirements = node::clients().join("python").join(format!("{name}.txt"));
            scope.spawn(move || python::install(name, &requirements))
        });
        npm.into_iter()
            .chain(python)
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("an installation panicked"))?)
    })?;
    Ok(node)
}
