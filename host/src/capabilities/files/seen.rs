//! What a run has last seen of the paths that it read, so that it does not change what others changed meanwhile. Pure.

use std::collections::BTreeMap;

use wasmtime_wasi::p2::bindings::filesystem::types::DescriptorType;

use super::record::{Answer, byte};

/// A folder's kind.
const FOLDER: u8 = DescriptorType::Directory as u8;

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
        /// A hash of the content, of a file that was read and is not too large.
        content: Option<u64>,
    },
}

impl Print {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Absent => out.push(0),
            Self::There { kind, size, modified, content } => {
                out.extend([if content.is_some() { 2 } else { 1 }, kind]);
                size.put(out);
                modified.put(out);
                if let Some(hash) = content {
                    hash.put(out);
                }
            }
        }
    }

    pub(super) fn take(from: &mut &[u8]) -> Option<Self> {
        let tag = byte(from)?;
        if tag == 0 {
            return Some(Self::Absent);
        }
        let (kind, size, modified) = (byte(from)?, u64::take(from)?, u64::take(from)?);
        let content = match tag {
            1 => None,
            2 => Some(u64::take(from)?),
            _ => return None,
        };
        Some(Self::There { kind, size, modified, content })
    }

    /// The hash of the content, if it has one.
    pub(super) const fn content(self) -> Option<u64> {
        match self {
            Self::There { content, .. } => content,
            Self::Absent => None,
        }
    }

    /// The same with the content's hash.
    pub(super) const fn with(self, content: Option<u64>) -> Self {
        match self {
            Self::There { kind, size, modified, .. } => Self::There { kind, size, modified, content },
            Self::Absent => Self::Absent,
        }
    }

    /// True where what looks like `now` is as it was: by its content where that is known of both, else by its time.
    pub(super) fn fits(self, now: Self) -> bool {
        match (self, now) {
            // A folder is what it is, whatever is in it.
            (Self::There { kind: FOLDER, .. }, Self::There { kind: FOLDER, .. }) => true,
            _ => match (self.content(), now.content()) {
                (Some(was), Some(is)) => was == is && self.with(None).at(0) == now.with(None).at(0),
                _ => self.with(None) == now.with(None),
            },
        }
    }

    /// The same at another time.
    const fn at(self, modified: u64) -> Self {
        match self {
            Self::There { kind, size, content, .. } => Self::There { kind, size, modified, content },
            Self::Absent => Self::Absent,
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
        let content = print.content().or_else(|| {
            // Who only looks at it keeps what it knows, where it looks the same.
            let (known, _) = self.0.get(place)?;
            known.content().filter(|_| known.with(None) == print)
        });
        self.0.insert(place.clone(), (print.with(content), stretch));
    }

    /// It was changed, and nobody knows into what.
    pub(super) fn forget(&mut self, place: &Place) {
        self.0.remove(place);
    }

    /// This run has changed it: only what it has read before matters to it.
    pub(super) fn changed(&mut self, place: &Place, print: Print, stretch: u64) {
        if let Some(known) = self.0.get_mut(place) {
            *known = (print, stretch);
        }
    }

    /// This run has moved it, with all that is below it.
    pub(super) fn moved(&mut self, from: &Place, to: &Place) {
        let is_moved = |(grant, path): &Place| *grant == from.0 && follow(path, &from.1, "").is_some();
        let moves: Vec<_> = self.0.extract_if(.., |place, _| is_moved(place)).collect();
        let is_below = |path: &str| follow(path, &to.1, "").is_some_and(|rest| !rest.is_empty());
        self.0.retain(|(grant, path), _| *grant != to.0 || !is_below(path));
        for ((_, path), known) in moves {
            if path == from.1 {
                // Whatever is there by now: it is expected to be gone.
                self.0.insert(from.clone(), known);
            }
            if let Some(path) = follow(&path, &from.1, &to.1) {
                self.0.insert((to.0, path), known);
            }
        }
    }

    /// True where it was read.
    pub(super) fn knows(&self, place: &Place) -> bool {
        self.0.contains_key(place)
    }

    /// True where its content is known.
    pub(super) fn knows_content(&self, place: &Place) -> bool {
        self.0.get(place).is_some_and(|(print, _)| print.content().is_some())
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

    const OLD: Print = Print::There { kind: 6, size: 1, modified: 1, content: None };
    const NEW: Print = Print::There { kind: 6, size: 2, modified: 2, content: None };

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
        seen.read(&place("d/x"), OLD, 4);
        seen.read(&place("e/y"), OLD, 4);
        seen.moved(&place("d"), &place("e"));
        assert_eq!(seen.expects(&place("e/x"), 5), Some(OLD), "with its folder");
        assert_eq!([seen.expects(&place("d/x"), 5), seen.expects(&place("e/y"), 5)], [None; 2]);
        seen.moved(&place("z"), &place("y"));
        assert_eq!(seen.expects(&place("y"), 3), None);
    }

    #[test]
    fn content_counts_where_it_is_known_and_time_where_it_is_not() {
        let (one, two) = (OLD.with(Some(1)), OLD.with(Some(2)));
        let later = |print: Print| print.at(9);
        assert!(OLD.fits(OLD) && !OLD.fits(later(OLD)) && !OLD.fits(NEW));
        assert!(one.fits(later(one)), "written again alike");
        assert!(!one.fits(two), "another content, with the same size and time");
        assert!(one.fits(OLD) && !one.fits(later(OLD)), "it cannot be read any more");
        assert!(!one.fits(NEW.with(Some(1))) && !one.fits(Print::Absent) && !Print::Absent.fits(one));
        assert!(Print::Absent.fits(Print::Absent));
        let mut seen = Seen::default();
        seen.read(&place("a"), one, 1);
        seen.read(&place("a"), OLD, 2);
        assert_eq!(seen.expects(&place("a"), 3), Some(one), "looked at, and it looked the same");
        seen.read(&place("a"), later(OLD), 3);
        assert_eq!(seen.expects(&place("a"), 4), Some(later(OLD)), "it looked different");
        seen.forget(&place("a"));
        assert_eq!(seen.expects(&place("a"), 4), None);
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
