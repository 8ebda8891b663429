//! The standard interfaces that the contract adds to WASI's own, and the standard streams.

use std::collections::BTreeMap;

use bindings::wasi::{config::store, logging::logging};
use layby_plugin::prelude::*;
use serde_json::json;

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit",
        inline: "
            package probe:standard;
            world imports {
                import wasi:config/store@0.2.0-draft;
                import wasi:logging/logging@0.1.0-draft;
            }
        ",
        world: "probe:standard/imports",
        generate_all,
    });
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Config {
    /// A key to read by itself.
    #[serde(default)]
    key: String,
}

/// Returns what `wasi:config` has: `{"one":…,"all":{…}}`.
#[tool]
pub(crate) fn config(args: Config) -> Result<String> {
    let wrong = |e: store::Error| format!("{e:?}");
    let one = store::get(&args.key).map_err(wrong)?;
    let all: BTreeMap<String, String> = store::get_all().map_err(wrong)?.into_iter().collect();
    Ok(json!({ "one": one, "all": all }).to_string())
}

/// One value of the configuration.
pub(crate) fn setting(key: &str) -> Option<String> {
    store::get(key).ok().flatten()
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Way {
    Logging,
    Stdout,
    Stderr,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Note {
    /// Where the lines go, one each.
    to: Vec<Way>,
    text: String,
    /// For `logging`.
    #[serde(default)]
    context: String,
    /// Waits so long, then writes the same again after `again `.
    #[serde(default)]
    ms: u64,
}

/// Writes to the operator's log in the ways that are not Layby's own.
#[tool]
pub(crate) fn note(args: Note) -> Result<String> {
    let write = |text: &str| {
        for way in &args.to {
            match way {
                Way::Logging => logging::log(logging::Level::Warn, &args.context, text),
                #[expect(clippy::print_stdout, reason = "what the test wants")]
                Way::Stdout => println!("{text}"),
                Way::Stderr => eprintln!("{text}"),
            }
        }
    };
    write(&args.text);
    if args.ms > 0 {
        std::thread::sleep(std::time::Duration::from_millis(args.ms));
        write(&format!("again {}", args.text));
    }
    Ok("written".to_owned())
}
