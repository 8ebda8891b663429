//! What a run has last seen of the paths that it read, so that it does not change what others changed meanwhile. Pure.

use std::collections::BTreeMap;

use super::record::{Answer, byte};

/// What a path looked like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Print {
    /// There was nothing, or nothing that can be looked at.
    Absent,
    There {
        kind: u8,
        size: u64,
        /// Nanoseconds since 1970.
        modified: u64,
    },
}

impl Print {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Absent => out.push(0),
            Self::There { kind, size, modified } => {
                out.extend([1, kind]);
                size.put(out);
                modified.put(out);
            }
        }
    }

    pub(super) fn take(from: &mut &[u8]) -> Option<Self> {
        match byte(from)? {
            0 => Some(Self::Absent),
            1 => Some(Self::There { kind: byte(from)?, size: u64::take(from)?, modified: u64::take(from)? }),
            _ => None,
        }
    }
}

/// A path below a grant's folder: the grant's number, and the path without `.` and `..`.
pub(super) type Place = (usize, String);

/// Paths that were read, each with what it looked like and in which stretch between two waits that was.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<Place, (Print, u64)>);

impl Seen {
    /// It was read in this stretch.
    pub(super) fn read(&mut self, place: &Place, print: Print, stretch: u64) {
        self.0.insert(place.clone(), (print, stretch));
    }

    /// This run has changed it: only what it has read before matters to it.
    pub(super) fn changed(&mut self, place: &Place, print: Print, stretch: u64) {
        if let Some(known) = self.0.get_mut(place) {
            *known = (print, stretch);
        }
    }

    /// This run has moved it.
    pub(super) fn moved(&mut self, from: &Place, to: &Place) {
        if let Some(known) = self.0.get(from).copied() {
            self.0.insert(to.clone(), known);
        }
    }

    /// True where it was read.
    pub(super) fn knows(&self, place: &Place) -> bool {
        self.0.contains_key(place)
    }

    /// What it must look like to be changed in this stretch; none where it was not read, or is known to be as it was.
    pub(super) fn expects(&self, place: &Place, stretch: u64) -> Option<Print> {
        self.0.get(place).filter(|(_, at)| *at != stretch).map(|(print, _)| *print)
    }
}

/// `path` below `folder`, without `.`, `..` and empty parts, as far as names alone tell.
pub(super) fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Where `path` is once `from` has become `to`; none where it is elsewhere.
pub(super) fn follow(path: &str, from: &str, to: &str) -> Option<String> {
    let rest = path.strip_prefix(from)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Print = Print::There { kind: 6, size: 1, modified: 1 };
    const NEW: Print = Print::There { kind: 6, size: 2, modified: 2 };

    fn place(path: &str) -> Place {
        (0, path.to_owned())
    }

    #[test]
    fn only_what_was_read_before_a_wait_is_expected() {
        let mut seen = Seen::default();
        assert_eq!(seen.expects(&place("a"), 1), None, "never read");
        seen.changed(&place("a"), NEW, 1);
        assert_eq!(seen.expects(&place("a"), 2), None, "written is not read");
        seen.read(&place("a"), OLD, 1);
        assert_eq!(seen.expects(&place("a"), 1), None);
        assert_eq!(seen.expects(&place("a"), 2), Some(OLD));
        seen.changed(&place("a"), NEW, 2);
        assert_eq!(seen.expects(&place("a"), 2), None, "its own change is nobody else's");
        assert_eq!(seen.expects(&place("a"), 3), Some(NEW));
        seen.moved(&place("a"), &place("b"));
        assert_eq!(seen.expects(&place("b"), 3), Some(NEW));
        seen.moved(&place("z"), &place("y"));
        assert_eq!(seen.expects(&place("y"), 3), None);
    }

    #[test]
    fn paths_are_joined_by_their_names() {
        assert_eq!(join("", "a/./b//c"), "a/b/c");
        assert_eq!(join("a/b", "../c"), "a/c");
        assert_eq!(join("a", "../../.."), "");
        assert_eq!(follow("a/b", "a", "x/y"), Some("x/y/b".into()));
        assert_eq!(follow("ab", "a", "x"), None);
        assert_eq!(follow("a", "a", "x"), Some("x".into()));
    }
}
