//! The name of a new project: what fits every language and a plugin folder.

use super::Lang;
use crate::config::NewRules;

/// Names that tools of a language, or a project's own folders, already have, in any language.
const TAKEN: &str = "alloc build core deps embedded examples incremental layby layby-dev layby-plugin main \
    node-modules plugins proc-macro src std target test tests tool tools wit wit-world";

/// What no identifier may be in one of the languages: Rust, Python, and then TypeScript, Go and C.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern \
    false final fn for gen if impl in let loop macro match mod move mut override priv pub ref return self \
    static struct super trait true try type typeof union unsafe unsized use virtual where while yield \
    and assert class def del elif except finally from global import is lambda none nonlocal not or pass \
    raise with \
    auto case catch chan char debugger default defer delete double export extends fallthrough float func \
    function go goto implements inline instanceof int interface long map new null package private protected \
    public range register restrict select short signed sizeof switch this throw typedef unsigned var void \
    volatile";

impl Lang {
    /// Names that would shadow what a project of this language is built with: packages, modules and crates that
    /// it or its kit uses, and files of settings that its tools would take the policy `NAME.toml` for.
    const fn shadowed(self) -> &'static str {
        match self {
            Self::Rust => {
                "cargo clippy layby-plugin-macros quote rust-toolchain rustfmt schemars serde serde-derive \
                 serde-json syn wit-bindgen"
            }
            Self::Python => {
                "app asyncio base64 binascii collections componentize-py dataclasses datetime encodings enum \
                 inspect json logging pathlib pyproject random re ruff sys test-app traceback types typing \
                 unittest uuid"
            }
            Self::Typescript => {
                "bunfig componentize-js esbuild jco node npm preview2-shim tsc typescript zod"
            }
            Self::Go => "internal laybytest testdata vendor",
            Self::C => "",
        }
    }
}

/// Why `name` will not do for `lang`, with one that will.
///
/// # Errors
/// It will not do.
pub(super) fn check(name: &str, lang: Lang) -> Result<(), String> {
    let why = if name.len() > NewRules::NAME {
        format!("it has {} characters, and a name has at most {}", name.chars().count(), NewRules::NAME)
    } else if !well_formed(name) {
        "a name is of a-z, 0-9 and single -, and begins with a letter".to_owned()
    } else if let Some(why) = reserved(name, lang) {
        why
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(NewRules::NAME).collect();
    let more = if shown.len() < name.len() { "…" } else { "" };
    Err(format!(
        "`{shown}{more}` cannot be the name of a plugin: {why}. `{}` would do.",
        proposal(name, lang)
    ))
}

fn well_formed(name: &str) -> bool {
    name.len() <= NewRules::NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.ends_with('-')
        && !name.contains("--")
}

fn reserved(name: &str, lang: Lang) -> Option<String> {
    let has = |words: &str| words.split_ascii_whitespace().any(|word| word == name);
    if has(KEYWORDS) {
        Some("it is a word of a programming language".to_owned())
    } else if has(TAKEN) {
        Some("tools or the project's own files have that name".to_owned())
    } else if has(lang.shadowed()) {
        let title = lang.title();
        Some(format!("it would shadow what a project in {title} is built with, which has that name"))
    } else {
        None
    }
}

/// The nearest name that is allowed.
fn proposal(name: &str, lang: Lang) -> String {
    let mut near = String::new();
    let mut before = '-';
    for c in name.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).chars() {
        if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            near.push('-');
        }
        if c.is_ascii_alphanumeric() {
            near.push(c.to_ascii_lowercase());
        } else if !near.ends_with('-') {
            near.push('-');
        }
        before = c;
    }
    near.truncate(NewRules::NAME);
    let near = near.trim_end_matches('-');
    match near {
        "" => format!("my-{}-tool", lang.name()),
        // Shorter than the longest name: no keyword is near it.
        near if reserved(near, lang).is_some() => format!("my-{near}"),
        near => near.to_owned(),
    }
}

/// With `_` for `-`, as identifiers are.
pub(super) fn snake(name: &str) -> String {
    name.replace('-', "_")
}

/// Each word with a capital.
pub(super) fn pascal(name: &str) -> String {
    let words = name.split('-').filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "hello", "hello-world", "x1", "a-1-b", &"a".repeat(64)] {
            assert_eq!(check(good, Lang::Rust), Ok(()), "{good}");
        }
        let near = |bad: &str| {
            let why = check(bad, Lang::Go).unwrap_err();
            why.split('`').rev().nth(1).unwrap().to_owned()
        };
        for (bad, good) in [
            ("", "my-go-tool"),
            ("Hello World", "hello-world"),
            ("helloWorld", "hello-world"),
            ("hello_world", "hello-world"),
            ("9lives", "lives"),
            ("a--b", "a-b"),
            ("a-", "a"),
            ("../etc", "etc"),
            ("fn", "my-fn"),
            ("TEST", "my-test"),
            ("layby", "my-layby"),
            ("naïve", "na-ve"),
            ("日本", "my-go-tool"),
            (&"b".repeat(65), &"b".repeat(64)),
        ] {
            assert_eq!(near(bad), good);
        }
    }

    #[test]
    fn a_long_name_is_told_its_length() {
        let why = check(&"b".repeat(245), Lang::C).unwrap_err();
        assert!(why.contains("it has 245 characters") && why.contains("at most 64"), "{why}");
        let quoted = "b".repeat(65);
        assert!(!why.contains(&quoted), "{why}");
    }

    #[test]
    fn what_a_project_is_built_with_is_not_shadowed() {
        for (lang, names) in [
            (
                Lang::Rust,
                "serde serde-json schemars layby-plugin layby-plugin-macros std core cargo embedded",
            ),
            (
                Lang::Python,
                "json asyncio layby wit-world app test-app typing dataclasses pyproject layby-dev",
            ),
            (Lang::Typescript, "zod layby esbuild typescript layby-dev"),
            (Lang::Go, "layby main vendor internal embedded core"),
            (Lang::C, "layby core embedded layby-dev tool"),
        ] {
            for name in names.split(' ') {
                let why = check(name, lang).unwrap_err();
                assert!(why.contains(&format!("`my-{name}` would do")), "{lang:?}: {why}");
            }
        }
        let why = check("zod", Lang::Typescript).unwrap_err();
        assert!(why.contains("a project in TypeScript is built with"), "{why}");
        assert_eq!(check("zod", Lang::Rust), Ok(()));
    }

    #[test]
    fn other_spellings() {
        assert_eq!((snake("to-do-2").as_str(), pascal("to-do-2").as_str()), ("to_do_2", "ToDo2"));
    }

    proptest! {
        #[test]
        fn what_is_proposed_is_allowed(name in ".{0,80}|json|zod|serde", lang in 0..5_usize) {
            let lang = [Lang::Rust, Lang::Python, Lang::Typescript, Lang::Go, Lang::C][lang];
            let near = proposal(&name, lang);
            prop_assert_eq!(check(&near, lang), Ok(()), "{}", near);
        }
    }
}
