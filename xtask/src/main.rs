//! Every chore of the project, as `cargo xtask NAME`.

use clap::Parser;

mod bench;
mod clients;
mod conformance;
mod demo;
mod deny;
mod fuzz;
mod guides;
mod node;
mod plugins;
mod postgres;
mod python;
mod registry;
mod server;
mod sh;
mod test;
mod tools;

/// Layby's chores. Each installs what it needs.
#[derive(Parser)]
enum Chore {
    /// Build every plugin to `target/plugins/NAME.wasm`, with its policy file.
    Plugins(plugins::Args),
    /// Print, for `eval`, the environment in which a language's ordinary tools build plugins.
    Tools(tools::Args),
    /// Start a PostgreSQL server for the store's tests, and print where it is, for `eval`.
    Postgres(postgres::Args),
    /// Unpack the OCI registry for the tests of `layby plugins add`, where this system has none.
    Registry,
    /// Set everything up and run the main job, telling what happens.
    Demo(demo::Args),
    /// Set everything up and pass all tests.
    Test(test::Args),
    /// Run the official conformance suite against the real host, and count what it says.
    Conformance(conformance::Args),
    /// Look for inputs that break what reads the bytes of strangers.
    Fuzz(fuzz::Args),
    /// Check what is built in: licences, banned crates, and where crates come from.
    Deny(deny::Args),
    /// Run every command and code block of the guides in docs/plugins.
    Guides(guides::Args),
    /// Measure, and print a table.
    Bench(bench::Args),
}

fn main() -> anyhow::Result<()> {
    match Chore::parse() {
        Chore::Plugins(args) => plugins::run(args),
        Chore::Tools(args) => tools::run(&args),
        Chore::Postgres(args) => postgres::run(&args),
        Chore::Registry => registry::install(),
        Chore::Demo(args) => demo::run(args),
        Chore::Test(args) => test::run(args),
        Chore::Conformance(args) => conformance::run(args),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Deny(args) => deny::run(&args),
        Chore::Guides(args) => guides::run(&args),
        Chore::Bench(args) => bench::run(args),
    }
}
