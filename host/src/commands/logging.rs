//! Logs: on stderr, never on stdout; plugin text in them is neutral.

use std::io;

use tracing::{Subscriber, field::Field};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    field::MakeExt as _,
    fmt::format::{self, Writer},
    prelude::*,
    registry::LookupSpan,
};

use super::{exit::Failure, out::Color};
use crate::base::neutral_line;

/// Starts logging. `filter` is in the syntax of `tracing_subscriber::EnvFilter`; `verbose` raises `default`.
///
/// # Errors
/// A filter that cannot be read.
pub(crate) fn install(filter: Option<&str>, verbose: u8, default: &str, color: Color) -> Result<(), Failure> {
    let layer = lines(color).with_filter(given(filter, verbose, default)?);
    // A second call (a test) keeps the first.
    let _ = tracing_subscriber::registry().with(layer).try_init();
    Ok(())
}

/// Starts logging to `own` by its filter; to stderr only where it was asked for.
///
/// # Errors
/// As [`install`].
pub(crate) fn install_beside(
    filter: Option<&str>,
    verbose: u8,
    color: Color,
    own: (impl Layer<Registry> + Send + Sync, &str),
) -> Result<(), Failure> {
    let asked = filter.is_some() || verbose > 0;
    let filter = given(filter, verbose, "warn")?;
    let (layer, own_filter) = (own.0, EnvFilter::new(own.1));
    let registry = tracing_subscriber::registry().with(layer.with_filter(own_filter));
    let _ = registry.with(asked.then(|| lines(color).with_filter(filter))).try_init();
    Ok(())
}

fn given(filter: Option<&str>, verbose: u8, default: &str) -> Result<EnvFilter, Failure> {
    let text = filter.map_or_else(|| level(verbose, default), str::to_owned);
    EnvFilter::builder().parse(&text).map_err(|e| {
        Failure::usage(
            "log_filter_invalid",
            format!("--log {text:?} is not a log filter: {e}. Write, for example, info or layby=debug"),
        )
    })
}

/// Lines on stderr.
fn lines<S>(color: Color) -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let terminal = io::IsTerminal::is_terminal(&io::stderr());
    tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(color.on(terminal))
        .with_target(false)
        .fmt_fields(format::debug_fn(write_field).delimited(" "))
}

fn level(verbose: u8, default: &str) -> String {
    match verbose {
        // The client library logs each failure that its caller gets, too.
        0 => format!("warn,rmcp=off,layby={default}"),
        1 => "warn,layby=debug".to_owned(),
        2 => "info,layby=trace".to_owned(),
        _ => "trace".to_owned(),
    }
}

fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn std::fmt::Debug) -> std::fmt::Result {
    let text = neutral_line(&format!("{value:?}"));
    match field.name() {
        "message" => writer.write_str(&text),
        name => write!(writer, "{name}={text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_checked_and_levels_rise() {
        assert_eq!(level(0, "info"), "warn,rmcp=off,layby=info");
        assert_eq!(level(3, "info"), "trace");
        let wrong = install(Some("a=b=c"), 0, "warn", Color::Never);
        assert!(wrong.is_err_and(|e| e.code == "log_filter_invalid"));
    }
}
