//! Names: WIT's kebab case to the snake case of tools, parameters, fields and cases.

/// `name` in snake case. WIT's own names differ in more than their case, so that two of one scope stay two.
pub(super) fn snake(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            '-' => '_',
            c => c.to_ascii_lowercase(),
        })
        .collect()
}

/// The name of an exported interface without its package and version: `sums` of `acme:math/sums@1.2.0`.
pub(super) fn interface(export: &str) -> &str {
    let name = export.rsplit('/').next().unwrap_or(export);
    name.split('@').next().unwrap_or(name)
}

/// A tool's name: the function's, after the interface's where it is in one.
pub(super) fn tool(export: Option<&str>, function: &str) -> String {
    let function = snake(function);
    export.map_or_else(|| function.clone(), |export| format!("{}_{function}", snake(interface(export))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_snake_case() {
        for (export, function, name) in [
            (None, "add", "add"),
            (None, "read-URL-now", "read_url_now"),
            (Some("acme:math/big-sums@1.2.0-rc.1"), "add-all", "big_sums_add_all"),
            (Some("sums"), "add", "sums_add"),
            (Some("acme:math/sums"), "add2", "sums_add2"),
        ] {
            assert_eq!(tool(export, function), name);
        }
    }
}
