//! One tool with one argument: what the benchmark calls the SDK's guest.

use layby_plugin::prelude::*;

/// What to echo.
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// Comes back as it is.
    text: String,
}

/// Answers with the text it was given.
#[tool(read_only, idempotent, open_world = false)]
fn echo(args: Echo) -> Result<String> {
    Ok(args.text)
}

layby_plugin::plugin!(echo);
