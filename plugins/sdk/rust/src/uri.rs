//! Reads a URI back by an RFC 6570 template. The macro has checked the template: expressions with one
//! of the operators `+ # . / ? &` or none, and variables without modifiers.

/// The variables of a URI that fits the template, in the template's order and without their percent
/// signs.
pub(crate) fn fit(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    parts(template, uri, &mut found).then_some(())?;
    found.into_iter().map(|(name, value)| Some((name.to_owned(), decoded(value)?))).collect()
}

type Found<'a> = Vec<(&'a str, &'a str)>;

/// Does `uri` fit the rest of a template?
fn parts<'a>(template: &'a str, uri: &'a str, found: &mut Found<'a>) -> bool {
    let Some((literal, rest)) = template.split_once('{') else { return template == uri };
    let Some(uri) = uri.strip_prefix(literal) else { return false };
    let Some((expression, rest)) = rest.split_once('}') else { return false };
    let operator = expression.chars().next().filter(|c| "+#./?&".contains(*c));
    let names = operator.map_or(expression, |c| &expression[c.len_utf8()..]);
    match operator {
        Some(c @ ('?' | '&')) => query(names, c, rest, uri, found),
        Some(c @ ('/' | '.')) => segments(names, c, rest, uri, found),
        Some('#') if !uri.starts_with('#') => parts(rest, uri, found),
        Some('#') => list(names, any, rest, &uri[1..], found),
        Some(_) => list(names, any, rest, uri, found),
        None => list(names, within_segment, rest, uri, found),
    }
}

fn any(_: char) -> bool {
    true
}

fn within_segment(c: char) -> bool {
    !"/?#".contains(c)
}

/// Where a value of such characters may end: the longest first, and not within a character.
fn ends(uri: &str, least: usize, allowed: fn(char) -> bool) -> impl Iterator<Item = usize> {
    let longest = uri.find(|c| !allowed(c)).unwrap_or(uri.len());
    (least..=longest).rev().filter(|end| uri.is_char_boundary(*end))
}

/// Values with commas between them, of which all but the first may be missing. A value is as long as
/// it can be, but for the commas that the next values need.
fn list<'a>(
    names: &'a str,
    allowed: fn(char) -> bool,
    rest: &'a str,
    uri: &'a str,
    found: &mut Found<'a>,
) -> bool {
    let (name, more) = names.split_once(',').map_or((names, None), |(name, more)| (name, Some(more)));
    let before = found.len();
    if let Some(more) = more {
        for end in ends(uri, 1, allowed) {
            let Some(after) = uri[end..].strip_prefix(',') else { continue };
            found.push((name, &uri[..end]));
            if list(more, allowed, rest, after, found) {
                return true;
            }
            found.truncate(before);
        }
    }
    for end in ends(uri, 1, allowed) {
        found.push((name, &uri[..end]));
        if parts(rest, &uri[end..], found) {
            return true;
        }
        found.truncate(before);
    }
    false
}

/// `/a/b` and `.a.b`, of which each may be missing.
fn segments<'a>(names: &'a str, separator: char, rest: &'a str, uri: &'a str, found: &mut Found<'a>) -> bool {
    let Some((name, more)) = (!names.is_empty()).then(|| names.split_once(',').unwrap_or((names, ""))) else {
        return parts(rest, uri, found);
    };
    let before = found.len();
    if let Some(uri) = uri.strip_prefix(separator) {
        // The next names take what begins with a separator, as long as there are any.
        let next = if separator == '.' && !more.is_empty() { uri.find('.') } else { None };
        for end in next.into_iter().chain(ends(uri, 0, within_segment)) {
            found.push((name, &uri[..end]));
            if segments(more, separator, rest, &uri[end..], found) {
                return true;
            }
            found.truncate(before);
        }
    }
    segments(more, separator, rest, uri, found)
}

/// `?a=1&b=2`, of which each may be missing, in any order.
fn query<'a>(names: &'a str, first: char, rest: &'a str, uri: &'a str, found: &mut Found<'a>) -> bool {
    let (mut uri, mut expected) = (uri, first);
    let before = found.len();
    while let Some(after) = uri.strip_prefix(expected) {
        let end = after.find(['&', '#']).unwrap_or(after.len());
        let (name, value) = after[..end].split_once('=').unwrap_or((&after[..end], ""));
        let Some(name) = names.split(',').find(|n| *n == name) else { break };
        if found[before..].iter().any(|(known, _)| *known == name) {
            break;
        }
        found.push((name, value));
        (uri, expected) = (&after[end..], '&');
    }
    if parts(rest, uri, found) {
        return true;
    }
    found.truncate(before);
    false
}

/// Without percent signs; none if what they say is no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, uri: &str, expected: Option<&[(&str, &str)]>) {
        let found = fit(template, uri);
        let found: Option<Vec<(&str, &str)>> =
            found.as_ref().map(|f| f.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect());
        assert_eq!(found.as_deref(), expected, "{template} of {uri}");
    }

    #[test]
    fn a_plain_variable_stays_between_slashes() {
        check("test://t/{id}/data", "test://t/123/data", Some(&[("id", "123")]));
        check("test://t/{id}/data", "test://t/a%2Fb%20c/data", Some(&[("id", "a/b c")]));
        check("test://t/{id}/data", "test://t/1/2/data", None);
        check("test://t/{id}/data", "test://t//data", None);
        check("test://t/{id}/data", "test://t/1/data/", None);
        check("test://{a}-{b}", "test://1-2-3", Some(&[("a", "1-2"), ("b", "3")]));
        check("test://{a,b}", "test://1,2", Some(&[("a", "1"), ("b", "2")]));
        check("test://{a,b}", "test://1", Some(&[("a", "1")]));
        check("test://{a}", "test://1,2:3@\u{e9}", Some(&[("a", "1,2:3@\u{e9}")]));
        check("test://{a}", "test://1?2", None);
        check("test://fixed", "test://fixed", Some(&[]));
    }

    #[test]
    fn a_reserved_variable_takes_all() {
        check("library:///{+path}", "library:///a/b.txt", Some(&[("path", "a/b.txt")]));
        check("library:///{+path}", "library:///", None);
        check("x:{+path}/end", "x:a/end/end", Some(&[("path", "a/end")]));
        check("x:a{#part}", "x:a#b/c", Some(&[("part", "b/c")]));
        check("x:a{#part}", "x:a", Some(&[]));
    }

    #[test]
    fn paths_and_labels_are_separated_by_their_operator() {
        check("x:a{/b,c}", "x:a/1/2", Some(&[("b", "1"), ("c", "2")]));
        check("x:a{.b,c}", "x:a.1.2", Some(&[("b", "1"), ("c", "2")]));
        check("x:a{/b,c}", "x:a/1", Some(&[("b", "1")]));
        check("x:a{/b,c}", "x:a", Some(&[]));
        check("x:a{.b}", "x:a.tar.gz", Some(&[("b", "tar.gz")]));
    }

    #[test]
    fn a_query_may_be_short_and_in_any_order() {
        check("x:a{?b,c}", "x:a?c=2&b=1", Some(&[("c", "2"), ("b", "1")]));
        check("x:a{?b,c}", "x:a", Some(&[]));
        check("x:a{?b}", "x:a?b", Some(&[("b", "")]));
        check("x:a{?b}", "x:a?d=1", None);
        check("x:a{?b}", "x:a?b=1&b=2", None);
        check("x:a?k=v{&b}", "x:a?k=v&b=%C3%BC", Some(&[("b", "ü")]));
    }

    #[test]
    fn broken_percent_signs_fit_nothing() {
        for uri in ["x:%", "x:%4", "x:%zz", "x:%ff", "x:%+1"] {
            check("x:{a}", uri, None);
        }
    }
}
