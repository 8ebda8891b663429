#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;

fn fits(template: &str, uri: &str) -> bool {
    UriTemplate::parse(template).unwrap().fits(uri)
}

#[test]
fn every_operator_takes_its_own() {
    for (template, yes, no) in [
        ("a://b", &["a://b"][..], &["a://", "a://bc", "A://b", ""][..]),
        (
            "t://{id}/data",
            &["t://7/data", "t://a%20b/data", "t://é/data"],
            &["t:///data", "t://a/b/data", "t://a?x/data", "t://a%/data"],
        ),
        ("t://{a,b}", &["t://1", "t://1,2"], &["t://", "t://1/2"]),
        ("t://{a*}", &["t://1,2,3"], &["t://1/2"]),
        ("t://{a:2}/{a}", &["t://se/semicolon", "t://%C3%A9/x"], &["t://sem/semicolon", "t:///x"]),
        ("file://{+path}", &["file:///a/b?c#d"], &["file://", "file:/a"]),
        ("{+any}", &["x:y"], &["", "a b", "a\nb"]),
        ("t://x{#part}", &["t://x", "t://x#", "t://x#a/b?c"], &["t://xa", "t://x?a#b"]),
        ("t://x{.ext}", &["t://x", "t://x.", "t://x.tar.gz"], &["t://x.a/b", "t://xa"]),
        ("t://x{/a,b}", &["t://x", "t://x/1", "t://x/1/2", "t://x/"], &["t://x/1/2/3", "t://x1"]),
        ("t://x{/a*}", &["t://x", "t://x/1/2/3"], &["t://x/1?a"]),
        ("t://x{/a:1,b*}", &["t://x/1", "t://x/1/22/3"], &["t://x?1"]),
        ("t://x{;a,b}", &["t://x", "t://x;a=1;b=2", "t://x;a", "t://x;b=2"], &["t://x;c=1", "t://x;a=1/2"]),
        ("t://x{;a*}", &["t://x;k=1;l=2"], &["t://x;/"]),
        (
            "t://x{?a,b}",
            &["t://x", "t://x?a=1", "t://x?b=2&a=1", "t://x?a=", "t://x?a"],
            &["t://x?", "t://x?c=1", "t://x?a=1#b", "t://x?ab=1", "t://x&a=1"],
        ),
        ("t://x?f=1{&a}", &["t://x?f=1", "t://x?f=1&a=2"], &["t://x?f=1?a=2", "t://x?f=1&b=2"]),
        ("t://x{?a*}", &["t://x?k=1&l=2"], &["t://x?k=1#l"]),
        ("t://é/{a}", &["t://é/1", "t://%c3%A9/1"], &["t://e/1"]),
        ("t://%2F{a}", &["t://%2f1"], &["t:///1"]),
        ("t://a.b+c({x})", &["t://a.b+c(1)"], &["t://aXb+c(1)"]),
    ] {
        for uri in yes {
            assert!(fits(template, uri), "{template} must take {uri:?}");
        }
        for uri in no {
            assert!(!fits(template, uri), "{template} must not take {uri:?}");
        }
    }
    let long = format!("t://{}", "a".repeat(CatalogConfig::URI));
    assert!(!fits("t://{a}", &long));
    assert!(fits("t://{a,b.c}{?d*,e%20:3}", "t://1?x=y"));
}

#[test]
fn bad_templates_say_why() {
    let many = "{a}".repeat(CatalogConfig::URI_EXPRESSIONS + 1);
    let long = "a".repeat(CatalogConfig::URI_TEMPLATE + 1);
    for (template, reason) in [
        ("", "empty"),
        ("t://{a", "at 4: `{` is never closed"),
        ("t://a}", "at 5: '}'"),
        ("t://{}", "not a variable"),
        ("t://{a b}", "not a variable"),
        ("t://{a..b}", "not a variable"),
        ("t://{{a}}", "not a variable"),
        ("t://{é}", "not a variable"),
        ("t://{a%2}", "not a variable"),
        ("t://{=a}", "reserved"),
        ("t://{|a}", "reserved"),
        ("t://{a:0}", "from 1 to 9999"),
        ("t://{a:+3}", "from 1 to 9999"),
        ("t://{a:99999}", "from 1 to 9999"),
        ("t://{a:9999}", "too much to match"),
        ("t://{+x}{+a:90}{+y}", "too much to match"),
        ("t://{a:3*}", "not a variable"),
        ("t://{a,a}", "twice"),
        ("t:// {a}", "cannot stand"),
        ("t://%zz", "hexadecimal"),
        ("t://%é", "hexadecimal"),
        (&many, "expressions"),
        (&long, "bytes"),
    ] {
        let found = UriTemplate::parse(template).expect_err(template);
        assert!(found.contains(reason), "{template}: {found}");
    }
}

/// `value` as RFC 6570 expands it: unreserved characters stay, all others are escaped.
fn expanded(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    value.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

proptest! {
    #[test]
    fn reading_never_panics(text in any::<String>(), uri in any::<String>()) {
        if let Ok(template) = UriTemplate::parse(&text) {
            template.fits(&uri);
        }
    }

    #[test]
    fn what_looks_like_a_template_never_panics(text in "[a{}+#./;?&,:*%0-9é ]{0,40}", uri in "[a+#./;?&,:*%0-9é=]{0,40}") {
        if let Ok(template) = UriTemplate::parse(&text) {
            template.fits(&uri);
        }
    }

    #[test]
    fn a_text_without_expressions_fits_itself_alone(text in "[a-z0-9:/?#._~+*()-]{1,60}", other in "[a-z0-9:/?#.]{1,60}") {
        let template = UriTemplate::parse(&text).unwrap();
        prop_assert!(template.fits(&text));
        prop_assert_eq!(template.fits(&other), text == other);
    }

    #[test]
    fn expansions_fit(
        values in proptest::collection::vec("\\PC{1,8}", 3),
        operators in proptest::collection::vec(proptest::sample::select(vec!["", "+", "#", ".", "/", ";", "?"]), 1..4),
    ) {
        // At most one query and fragment, and in their places, as in a URI.
        let mut operators = operators;
        operators.sort_by_key(|o| match *o { "?" => 1, "#" => 2, _ => 0 });
        operators.dedup();
        let (mut template, mut uri) = (String::from("t://x/"), String::from("t://x/"));
        for (i, operator) in operators.iter().enumerate() {
            let value = expanded(&values[i]);
            template.push_str(&format!("!{{{operator}v{i}}}"));
            uri.push('!');
            uri.push_str(&match *operator {
                "" | "+" => value,
                ";" | "?" => format!("{operator}v{i}={value}"),
                _ => format!("{operator}{value}"),
            });
        }
        prop_assert!(UriTemplate::parse(&template).unwrap().fits(&uri), "{} {}", template, uri);
    }

    #[test]
    fn a_simple_value_never_spans_segments(value in "[a-z/?#]{1,12}") {
        let spans = value.contains(['/', '?', '#']);
        prop_assert_eq!(fits("t://{v}", &format!("t://{value}")), !spans);
    }
}

#[test]
fn all_expressions_that_a_template_may_have_compile() {
    for each in ["{a}", "{+a}", "{/a*}", "{.a}", "{;a*}", "{&a}", "{a:1}", "{+a:1}"] {
        let text = format!("t://{}", each.repeat(CatalogConfig::URI_EXPRESSIONS));
        assert!(UriTemplate::parse(&text).is_ok(), "{text}");
    }
}
