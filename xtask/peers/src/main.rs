//! Programs of the benchmark: two servers to compare the host with, the rate of the disk, and the
//! driver. `cargo xtask bench` starts each as a process of its own, pinned to a core.

use anyhow::Result;
use clap::Parser;

mod database;
mod disk;
mod drive;
mod echo;
mod native;

/// Programs of the benchmark. Servers print their URL; the others print one JSON object.
#[derive(Parser)]
enum Program {
    /// A bare axum server that answers with the JSON that it got.
    Axum,
    /// rmcp's own streamable HTTP service, with a native echo tool.
    Rmcp,
    /// How many commits, each synced, the disk takes.
    Disk(disk::Args),
    /// Copies a task in a host's database.
    Seed(database::Seed),
    /// Sends requests and measures.
    #[command(subcommand)]
    Drive(drive::Mode),
}

fn main() -> Result<()> {
    match Program::parse() {
        // Both with as many threads as they have cores, as the host has.
        Program::Axum => tokio::runtime::Runtime::new()?.block_on(echo::serve()),
        Program::Rmcp => tokio::runtime::Runtime::new()?.block_on(native::serve()),
        Program::Disk(args) => tell(disk::run(&args)?),
        Program::Seed(args) => tell(database::seed(&args)?),
        Program::Drive(mode) => tell(drive::run(mode)?),
    }
}

#[allow(clippy::print_stdout)]
fn tell(found: serde_json::Value) -> Result<()> {
    println!("{found}");
    Ok(())
}
