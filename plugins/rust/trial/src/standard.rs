pub(crate) use bindings::wasi::logging::logging::Level;

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({
        inline: "
            package layby:trial;
            world imports {
                import wasi:config/store@0.2.0-draft;
                import wasi:logging/logging@0.1.0-draft;
            }
        ",
        path: "../../../wit",
        generate_all,
    });
}

/// The value of `key`, where policy has one.
pub(crate) fn value(key: &str) -> Result<Option<String>, String> {
    bindings::wasi::config::store::get(key).map_err(|error| format!("{error:?}"))
}

/// A line for the operator.
pub(crate) fn log(level: Level, context: &str, message: &str) {
    bindings::wasi::logging::logging::log(level, context, message);
}
