use std::{fmt, marker::PhantomData};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    bindings::layby::plugin::call::InputError,
    form::schema,
    testing,
    types::{FormQuestion, InputAnswer, InputRequest, Question, UrlQuestion},
};

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// The caller gave an answer.
    Accepted(T),
    /// The caller said no.
    Declined,
    /// The caller closed the question without saying yes or no.
    Dismissed,
}

impl<T> Answer<T> {
    /// The answer that was given, if one was.
    pub fn accepted(self) -> Option<T> {
        match self {
            Answer::Accepted(answer) => Some(answer),
            Answer::Declined | Answer::Dismissed => None,
        }
    }
}

/// Why a question has no answer at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The caller's client cannot answer this kind of question, or policy forbids asking it.
    Unsupported,
    /// No answer came in time (only where the host is set to resume the call).
    TimedOut,
    /// The question is malformed: the reason.
    Invalid(String),
    /// The call was cancelled meanwhile.
    Cancelled,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Unsupported => f.write_str("the client cannot answer this kind of question"),
            AskError::TimedOut => f.write_str("no answer came in time"),
            AskError::Invalid(why) => write!(f, "the question is malformed: {why}"),
            AskError::Cancelled => f.write_str("the call was cancelled"),
        }
    }
}

impl std::error::Error for AskError {}

impl From<InputError> for AskError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Unsupported => AskError::Unsupported,
            InputError::TimedOut => AskError::TimedOut,
            InputError::Invalid(why) => AskError::Invalid(why),
            InputError::Cancelled => AskError::Cancelled,
        }
    }
}

/// One question; made by [`form`], [`url`], [`sampling`] or [`roots`].
pub trait Ask {
    /// What an accepted answer holds.
    type Answer;

    /// The question as the host takes it.
    fn request(self) -> Result<InputRequest, AskError>;

    /// Reads the JSON of an accepted answer.
    fn read(json: &str) -> Result<Self::Answer, AskError>;
}

/// A form with the fields of `T`.
#[derive(Debug)]
pub struct Form<T> {
    key: String,
    message: String,
    fields: PhantomData<fn() -> T>,
}

/// A form with the fields of `T`. [`Call::ask_form`](crate::Call::ask_form) says what those may be.
pub fn form<T: DeserializeOwned + JsonSchema>(key: impl Into<String>, message: impl Into<String>) -> Form<T> {
    Form { key: key.into(), message: message.into(), fields: PhantomData }
}

impl<T: DeserializeOwned + JsonSchema> Ask for Form<T> {
    type Answer = T;

    fn request(self) -> Result<InputRequest, AskError> {
        let schema = schema::<T>().map_err(AskError::Invalid)?.to_string();
        let question = Question::Form(FormQuestion { message: self.message, schema });
        Ok(InputRequest { key: self.key, question })
    }

    fn read(json: &str) -> Result<T, AskError> {
        parse(json)
    }
}

/// A page that the caller is asked to open.
#[derive(Debug)]
pub struct Url(InputRequest);

/// A page that the caller is asked to open. Accepting means agreeing to open it, no more.
pub fn url(key: impl Into<String>, message: impl Into<String>, url: impl Into<String>) -> Url {
    let question = Question::Url(UrlQuestion { message: message.into(), url: url.into() });
    Url(InputRequest { key: key.into(), question })
}

impl Ask for Url {
    type Answer = ();

    fn request(self) -> Result<InputRequest, AskError> {
        Ok(self.0)
    }

    fn read(_json: &str) -> Result<(), AskError> {
        Ok(())
    }
}

/// Parameters of MCP's `sampling/createMessage`.
#[derive(Debug)]
pub struct Sampling(InputRequest);

/// Asks the client's model: `params` are those of MCP's `sampling/createMessage`, and the answer
/// is its result object.
pub fn sampling(key: impl Into<String>, params: &Value) -> Sampling {
    Sampling(InputRequest { key: key.into(), question: Question::Sampling(params.to_string()) })
}

impl Ask for Sampling {
    type Answer = Value;

    fn request(self) -> Result<InputRequest, AskError> {
        Ok(self.0)
    }

    fn read(json: &str) -> Result<Value, AskError> {
        parse(json)
    }
}

/// MCP's `roots/list`.
#[derive(Debug)]
pub struct Roots(InputRequest);

/// Asks the client for its roots; the answer is the result object of MCP's `roots/list`.
pub fn roots(key: impl Into<String>) -> Roots {
    Roots(InputRequest { key: key.into(), question: Question::Roots })
}

impl Ask for Roots {
    type Answer = Value;

    fn request(self) -> Result<InputRequest, AskError> {
        Ok(self.0)
    }

    fn read(json: &str) -> Result<Value, AskError> {
        parse(json)
    }
}

/// Several questions put at once: a tuple of up to four, or a `Vec` of one kind.
pub trait AskMany {
    /// The answers, in the order of the questions.
    type Answers;

    /// The questions as the host takes them.
    fn requests(self) -> Result<Vec<InputRequest>, AskError>;

    /// Reads the answers back.
    fn answers(answers: &mut dyn Iterator<Item = InputAnswer>) -> Result<Self::Answers, AskError>;
}

impl<Q: Ask> AskMany for Vec<Q> {
    type Answers = Vec<Answer<Q::Answer>>;

    fn requests(self) -> Result<Vec<InputRequest>, AskError> {
        self.into_iter().map(Ask::request).collect()
    }

    fn answers(answers: &mut dyn Iterator<Item = InputAnswer>) -> Result<Self::Answers, AskError> {
        answers.map(read::<Q>).collect()
    }
}

macro_rules! tuple {
    ($($q:ident),+) => {
        impl<$($q: Ask),+> AskMany for ($($q,)+) {
            type Answers = ($(Answer<$q::Answer>,)+);

            #[allow(non_snake_case)]
            fn requests(self) -> Result<Vec<InputRequest>, AskError> {
                let ($($q,)+) = self;
                Ok(vec![$($q.request()?),+])
            }

            fn answers(answers: &mut dyn Iterator<Item = InputAnswer>) -> Result<Self::Answers, AskError> {
                Ok(($(next::<$q>(answers)?,)+))
            }
        }
    };
}

tuple!(A);
tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);

pub(crate) fn ask_all<Q: AskMany>(questions: Q) -> Result<Q::Answers, AskError> {
    let requests = questions.requests()?;
    let answers = testing::host::request_input(&requests)?;
    if answers.len() != requests.len() {
        let (asked, given) = (requests.len(), answers.len());
        return Err(AskError::Invalid(format!("{given} answers came to {asked} questions")));
    }
    Q::answers(&mut answers.into_iter())
}

fn next<Q: Ask>(answers: &mut dyn Iterator<Item = InputAnswer>) -> Result<Answer<Q::Answer>, AskError> {
    let answer = answers.next().ok_or_else(|| AskError::Invalid("an answer is missing".to_owned()))?;
    read::<Q>(answer)
}

fn read<Q: Ask>(answer: InputAnswer) -> Result<Answer<Q::Answer>, AskError> {
    Ok(match answer {
        InputAnswer::Accepted(json) => Answer::Accepted(Q::read(&json)?),
        InputAnswer::Declined => Answer::Declined,
        InputAnswer::Dismissed => Answer::Dismissed,
    })
}

fn parse<T: DeserializeOwned>(json: &str) -> Result<T, AskError> {
    crate::read::json(json).map_err(|e| AskError::Invalid(format!("the answer does not fit: {e}")))
}
