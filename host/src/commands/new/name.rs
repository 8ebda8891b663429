//! The name of a new project: what fits every language and a plugin folder.

use super::Lang;

/// Most characters of a name.
const LONGEST: usize = 64;

/// Names that tools of a language, or a project's own folders, already have. In Rust and Python the name is also
/// a crate's or a module's (with `_` for `-`).
const TAKEN: &str = "alloc build core deps examples incremental layby layby-plugin main node-modules plugins \
    proc-macro src std target test tests tool tools wit wit-world";

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

/// Why `name` will not do for `lang`, with one that will.
///
/// # Errors
/// It will not do.
pub(super) fn check(name: &str, lang: Lang) -> Result<(), String> {
    let why = if well_formed(name) {
        match reserved(name) {
            Some(why) => why,
            None => return Ok(()),
        }
    } else {
        "a name has 1 to 64 of a-z, 0-9 and single -, and begins with a letter".to_owned()
    };
    Err(format!("`{name}` cannot be the name of a plugin: {why}. `{}` would do.", proposal(name, lang)))
}

fn well_formed(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.ends_with('-')
        && !name.contains("--")
}

fn reserved(name: &str) -> Option<String> {
    if KEYWORDS.split(' ').any(|word| word == name) {
        Some("it is a word of a programming language".to_owned())
    } else if TAKEN.split(' ').any(|word| word == name) {
        Some("tools or the project's own folders have that name".to_owned())
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
    near.truncate(LONGEST);
    let near = near.trim_end_matches('-');
    match near {
        "" => format!("my-{}-tool", lang.name()),
        // Shorter than the longest name: no keyword is near it.
        near if reserved(near).is_some() => format!("my-{near}"),
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
    fn other_spellings() {
        assert_eq!((snake("to-do-2").as_str(), pascal("to-do-2").as_str()), ("to_do_2", "ToDo2"));
    }

    proptest! {
        #[test]
        fn what_is_proposed_is_allowed(name in ".{0,80}") {
            let near = proposal(&name, Lang::C);
            prop_assert_eq!(check(&near, Lang::C), Ok(()), "{}", near);
        }
    }
}
