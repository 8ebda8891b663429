//! The grants that a component may need, as lines for its policy file. Imports say what a component *can* use:
//! an interpreter imports all of WASI, whatever its tools do.

use super::anatomy::{Anatomy, interpreter};

/// How sure it is that the grant is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It imports something that is there for this alone, and only what its tools use is in it.
    Likely,
    /// It imports something that its language's runtime has in it anyway.
    Possible,
}

/// One line of `[grants]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) need: Need,
    pub(super) toml: &'static str,
    pub(super) why: &'static str,
}

/// The grants, in the order of a policy file.
pub(super) fn lines(anatomy: &Anatomy) -> Vec<Line> {
    let imports = |start: &str| {
        let mut names = anatomy.imports.iter().map(|name| name.split('@').next().unwrap_or(name));
        names.any(|name| name == start)
    };
    // What an interpreter's or a kit's runtime imports says nothing of the tools; nor does what a language's
    // standard library always links.
    let sure =
        |sure: bool| if sure && interpreter(anatomy).is_none() { Need::Likely } else { Need::Possible };
    let all = [
        (
            imports("layby:plugin/call"),
            Need::Possible,
            r#"ask = ["form"]"#,
            "to ask its caller; also \"url https://HOST/\", \"sampling\", \"roots\"",
        ),
        (
            imports("wasi:http/outgoing-handler"),
            sure(true),
            r#"http = [{ allow = "GET https://api.example.com/*", idempotent = true }]"#,
            "outgoing HTTP: put the method and URL that it calls",
        ),
        (
            imports("wasi:cli/environment"),
            Need::Possible,
            r#"env = { NAME = "value" }"#,
            "environment variables, or { secret = \"VARIABLE\" } for a secret of the host",
        ),
        (
            imports("wasi:filesystem/preopens"),
            Need::Possible,
            r#"files = [{ host = "../data", guest = "/data", write = false }]"#,
            "a folder: host's path from the policy file's folder, path that the plugin sees",
        ),
        (
            imports("wasi:config/store") || imports("wasi:config/runtime"),
            sure(!anatomy.is_standard()),
            r#"config = { key = "value" }"#,
            "values of wasi:config",
        ),
    ];
    all.into_iter().filter(|(has, ..)| *has).map(|(_, need, toml, why)| Line { need, toml, why }).collect()
}

/// What is true of all of them.
pub(super) fn remark(anatomy: &Anatomy) -> String {
    match interpreter(anatomy) {
        Some(name) => format!(
            "It holds an interpreter ({name}), which imports all of WASI: the imports do not tell what its tools use. \
             Ask its author, and grant the least."
        ),
        None => {
            "Imports say what it can use, not what it does: grant the least that its tools need.".to_owned()
        }
    }
}

/// A policy to paste into `NAME.toml`: likely lines as they are, possible ones as comments.
pub(super) fn policy(anatomy: &Anatomy) -> String {
    let lines = lines(anatomy);
    let mut text = "[grants]\n".to_owned();
    if lines.is_empty() {
        text.push_str("# It imports nothing that needs a grant.\n");
    }
    for line in lines {
        let mark = if line.need == Need::Likely { "" } else { "# " };
        text.push_str(&format!("{mark}{}  # {}\n", line.toml, line.why));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        collections::{BTreeMap, BTreeSet},
        path::Path,
    };

    use super::*;
    use crate::config::{Config, load_policy};

    const ALL: [&str; 6] = [
        "layby:plugin/call@1.0.0",
        "wasi:http/outgoing-handler@0.2.6",
        "wasi:cli/environment@0.2.6",
        "wasi:filesystem/preopens@0.2.6",
        "wasi:config/store@0.2.0-rc.1",
        "wasi:clocks/wall-clock@0.2.6",
    ];

    fn importing(names: &[&str]) -> Anatomy {
        Anatomy { imports: names.iter().map(|n| (*n).to_owned()).collect(), ..Anatomy::default() }
    }

    #[test]
    fn every_line_is_a_policy_with_and_without_its_mark() {
        let text = policy(&importing(&ALL));
        let whole: String =
            text.lines().map(|l| format!("{}\n", l.strip_prefix("# ").unwrap_or(l))).collect();
        for text in [&text, &whole] {
            load_policy(text, Path::new("a.toml"), Path::new("/p"), &Config::default()).unwrap();
        }
        let grants =
            load_policy(&whole, Path::new("a.toml"), Path::new("/p"), &Config::default()).unwrap().grants;
        assert_eq!((grants.ask.len(), grants.http.len(), grants.files.len()), (1, 1, 1));
        assert_eq!((grants.env.len(), grants.config.len()), (1, 1));
    }

    #[test]
    fn what_is_only_possible_is_a_comment() {
        let text = policy(&importing(&ALL));
        assert!(text.contains("\nhttp = ") && text.contains("\nconfig = "), "{text}");
        assert!(
            text.contains("\n# env = ") && text.contains("\n# ask = ") && text.contains("\n# files = "),
            "{text}"
        );
        let none = policy(&importing(&["wasi:clocks/wall-clock@0.2.6"]));
        assert!(none.contains("nothing that needs a grant"), "{none}");
    }

    #[test]
    fn of_an_interpreter_nothing_is_certain() {
        let mut anatomy = importing(&ALL);
        anatomy.producers =
            BTreeMap::from([("processed-by".into(), BTreeSet::from(["componentize-py 0.17".into()]))]);
        let text = policy(&anatomy);
        assert!(text.lines().skip(1).all(|line| line.starts_with("# ")), "{text}");
        assert!(remark(&anatomy).contains("interpreter (componentize-py)"), "{}", remark(&anatomy));
        // A kit builds for the world `standard`, whether its tools read configuration or not.
        let kit = importing(&["wasi:config/store@0.2.0-draft", "wasi:logging/logging@0.1.0-draft"]);
        assert!(policy(&kit).contains("\n# config = "));
    }
}
