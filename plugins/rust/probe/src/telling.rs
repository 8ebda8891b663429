//! What a call tells others: that something has changed, and log lines.

use layby_plugin::{
    prelude::*,
    text_contents,
    types::{Change, EmbeddedResource, LogLevel},
};

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum What {
    Tools,
    Prompts,
    Resources,
    Contents,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Changed {
    /// What has changed, in this order.
    what: Vec<What>,
    /// Of which resource, for `contents`.
    #[serde(default)]
    uri: String,
    /// How many times, without a pause.
    #[serde(default = "one")]
    times: usize,
}

fn one() -> usize {
    1
}

/// Says that lists or a resource have changed.
#[tool]
pub(crate) fn changed(args: Changed, call: &Call) -> Result<String> {
    for _ in 0..args.times {
        for what in &args.what {
            call.changed(&match what {
                What::Tools => Change::Tools,
                What::Prompts => Change::Prompts,
                What::Resources => Change::Resources,
                What::Contents => Change::Contents(args.uri.clone()),
            });
        }
    }
    Ok(format!("said it {} times", args.times))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Place {
    /// Any text.
    path: String,
}

/// What `changed` can say to have changed; whoever reads it gets its path.
#[template(uri_template = "probe:///{+path}")]
pub(crate) fn place(of: Place) -> Result<EmbeddedResource> {
    Ok(text_contents(format!("probe:///{}", of.path), "text/plain", of.path.as_str()))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Log {
    /// Begins each line.
    #[serde(default)]
    text: String,
    /// How many times, without a pause.
    #[serde(default = "one")]
    times: usize,
    /// Bytes that each line is filled up with.
    #[serde(default)]
    size: usize,
}

/// Logs a line at every level, the lowest first: `TEXT debug`, `TEXT info`, …
#[tool]
pub(crate) fn log(args: Log, call: &Call) -> Result<String> {
    let levels = [
        (LogLevel::Debug, "debug"),
        (LogLevel::Info, "info"),
        (LogLevel::Notice, "notice"),
        (LogLevel::Warning, "warning"),
        (LogLevel::Error, "error"),
        (LogLevel::Critical, "critical"),
    ];
    let fill = "x".repeat(args.size);
    for _ in 0..args.times {
        for (level, name) in levels {
            call.log(level, format!("{} {name}{fill}", args.text));
        }
    }
    Ok(format!("logged {} lines", args.times * levels.len()))
}
