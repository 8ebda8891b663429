//! Answers to questions, as a guest gets them and as its journal keeps them.

use super::wit_call::{InputAnswer, InputError};
use crate::{config::Limits, journal::Call, store::Answer};

/// What a guest gets of one call of `request-input`.
pub(super) type Answers = Result<Vec<InputAnswer>, InputError>;

// The case of one answer, or of an error in place of all. Part of the journal's format.
const ACCEPTED: u8 = 0;
const DECLINED: u8 = 1;
const DISMISSED: u8 = 2;
const UNSUPPORTED: u8 = 0x10;
const TIMED_OUT: u8 = 0x11;
const INVALID: u8 = 0x12;
const CANCELLED: u8 = 0x13;

/// As a guest gets it.
pub(super) fn of(answer: Answer) -> InputAnswer {
    match answer {
        Answer::Accepted(value) => InputAnswer::Accepted(value.to_string()),
        Answer::Declined => InputAnswer::Declined,
        Answer::Dismissed => InputAnswer::Dismissed,
    }
}

/// The `end` entry: for each answer one byte of case, the length of its text, and its text.
pub(super) fn encode(answers: &Answers) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |case: u8, text: &str| {
        out.push(case);
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
    };
    match answers {
        Ok(answers) => answers.iter().for_each(|a| match a {
            InputAnswer::Accepted(text) => put(ACCEPTED, text),
            InputAnswer::Declined => put(DECLINED, ""),
            InputAnswer::Dismissed => put(DISMISSED, ""),
        }),
        Err(InputError::Unsupported) => put(UNSUPPORTED, ""),
        Err(InputError::TimedOut) => put(TIMED_OUT, ""),
        Err(InputError::Invalid(reason)) => put(INVALID, reason),
        Err(InputError::Cancelled) => put(CANCELLED, ""),
    }
    out
}

/// What [`encode`] wrote for `count` questions; none where it is anything else.
pub(super) fn decode(mut bytes: &[u8], count: usize) -> Option<Answers> {
    let mut answers = Vec::with_capacity(count);
    while !bytes.is_empty() {
        let (&case, rest) = bytes.split_first()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        bytes = rest;
        let text = || String::from_utf8(text.to_vec()).ok();
        let error = match case {
            ACCEPTED => {
                answers.push(InputAnswer::Accepted(text()?));
                continue;
            }
            DECLINED => {
                answers.push(InputAnswer::Declined);
                continue;
            }
            DISMISSED => {
                answers.push(InputAnswer::Dismissed);
                continue;
            }
            UNSUPPORTED => InputError::Unsupported,
            TIMED_OUT => InputError::TimedOut,
            INVALID => InputError::Invalid(text()?),
            CANCELLED => InputError::Cancelled,
            _ => return None,
        };
        return (bytes.is_empty() && answers.is_empty()).then_some(Err(error));
    }
    (answers.len() == count).then_some(Ok(answers))
}

/// What the answer of `call` in a journal says, for people. Not neutral: it holds what callers wrote.
pub fn describe(call: Call, bytes: &[u8]) -> String {
    if let Some(text) = super::files::describe(call, bytes) {
        return text;
    }
    match call {
        Call::Input => {
            let answers = (0..=Limits::QUESTIONS_AT_ONCE).find_map(|count| decode(bytes, count));
            match answers {
                Some(Ok(answers)) => answers.iter().map(shown).collect::<Vec<_>>().join(", "),
                Some(Err(error)) => error.to_string(),
                None => format!("{} bytes that are no answer", bytes.len()),
            }
        }
        Call::Poll => {
            let (indices, _) = bytes.as_chunks::<4>();
            let ready: Vec<_> = indices.iter().map(|i| u32::from_le_bytes(*i).to_string()).collect();
            format!("ready: {}", ready.join(", "))
        }
        Call::Ready | Call::Supports => if bytes == [1] { "yes" } else { "no" }.to_owned(),
        Call::Wall
        | Call::Monotonic
        | Call::FileOpen
        | Call::FileRead
        | Call::FileList
        | Call::FileStat
        | Call::FileLook => format!("{} bytes", bytes.len()),
    }
}

fn shown(answer: &InputAnswer) -> String {
    match answer {
        InputAnswer::Accepted(text) => format!("accepted {text}"),
        InputAnswer::Declined => "declined".to_owned(),
        InputAnswer::Dismissed => "dismissed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn answers_come_back_as_they_were_given() {
        let cases: [(usize, Answers); 6] = [
            (2, Ok(vec![InputAnswer::Accepted("{\"a\":\"\u{20ac}\"}".into()), InputAnswer::Declined])),
            (1, Ok(vec![InputAnswer::Dismissed])),
            (1, Err(InputError::Unsupported)),
            (3, Err(InputError::TimedOut)),
            (1, Err(InputError::Invalid("no".into()))),
            (1, Err(InputError::Cancelled)),
        ];
        for (count, answers) in cases {
            let bytes = encode(&answers);
            assert_eq!(format!("{:?}", decode(&bytes, count).unwrap()), format!("{answers:?}"));
            assert!(decode(&bytes[..bytes.len() - 1], count).is_none(), "cut short");
        }
        let one = encode(&Ok(vec![InputAnswer::Declined]));
        assert!(decode(&one, 2).is_none(), "of another number of questions");
        assert!(decode(&[9, 0, 0, 0, 0], 1).is_none(), "of no known case");
    }
}
