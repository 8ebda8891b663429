//! Prompts on a terminal. Everything that a plugin wrote is made neutral before it is shown.

use std::io::{self, IsTerminal};

use console::{Term, style};
use dialoguer::{Confirm, Input, MultiSelect, Select, theme::ColorfulTheme};
use serde_json::{Map, Value};

use super::{
    Question, Reply,
    form::{Choice, Field, Kind},
};
use crate::base::{neutral_line, neutral_text};

/// True where a person can be asked: standard input and error are a terminal.
pub(crate) fn terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// Ctrl-C.
    Interrupted,
    /// The question is not one for a person at a terminal.
    Unsupported(String),
    /// The terminal failed.
    Terminal(io::Error),
}

impl From<dialoguer::Error> for AskError {
    fn from(dialoguer::Error::IO(error): dialoguer::Error) -> Self {
        error.into()
    }
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Terminal(error),
        }
    }
}

/// Puts questions of one tool to a person. Blocks its thread.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// Who asks, in words: `The plugin "tidy"`.
    pub(crate) who: String,
}

impl Asker {
    /// Asks one question.
    ///
    /// # Errors
    /// See [`AskError`].
    pub(crate) fn ask(&self, question: &Question) -> Result<Reply, AskError> {
        let term = Term::stderr();
        let asked = self.ask_on(&term, question);
        if asked.is_err() {
            // A prompt that ends early leaves the cursor hidden.
            let _ = term.show_cursor();
        }
        asked
    }

    fn ask_on(&self, term: &Term, question: &Question) -> Result<Reply, AskError> {
        term.write_line("")?;
        term.write_line(
            &style(format!("{} asks:", neutral_line(&self.who))).for_stderr().bold().to_string(),
        )?;
        match question {
            Question::Form { message, fields } => {
                show_message(term, message)?;
                form(term, fields)
            }
            Question::Url { message, url } => {
                show_message(term, message)?;
                // The whole address, as it will be opened: the person decides by it.
                term.write_line(&format!("  {}", style(neutral_line(url)).for_stderr().underlined()))?;
                term.write_line("  Layby opens nothing: open the address yourself once you have agreed.")?;
                let accepted = Ok(Reply::Accept(Map::new()));
                decide(term, "I agree to open this address").unwrap_or(accepted)
            }
            Question::Other { method } => Err(AskError::Unsupported(format!(
                "{} is a question for a program, not for a person",
                neutral_line(method)
            ))),
        }
    }
}

fn show_message(term: &Term, message: &str) -> io::Result<()> {
    neutral_text(message).lines().try_for_each(|line| term.write_line(&format!("  {line}")))
}

/// `None` where the person goes on; otherwise how it ended.
fn decide(term: &Term, accept: &str) -> Option<Result<Reply, AskError>> {
    let choice = Select::with_theme(&ColorfulTheme::default())
        .with_prompt("What do you want to do")
        .items([accept, "Decline", "Dismiss the question"])
        .default(0)
        .interact_on_opt(term);
    match choice {
        Ok(Some(0)) => None,
        Ok(Some(1)) => Some(Ok(Reply::Decline)),
        Ok(_) => Some(Ok(Reply::Dismiss)),
        Err(error) => Some(Err(error.into())),
    }
}

fn form(term: &Term, fields: &[Field]) -> Result<Reply, AskError> {
    let accept = if fields.is_empty() { "Accept" } else { "Answer" };
    if let Some(end) = decide(term, accept) {
        return end;
    }
    let mut content = Map::new();
    for field in fields {
        if let Some(description) = &field.description {
            show_message(term, description)?;
        }
        if let Some(value) = ask_field(term, field)? {
            content.insert(field.name.clone(), value);
        }
    }
    Ok(Reply::Accept(content))
}

fn ask_field(term: &Term, field: &Field) -> Result<Option<Value>, AskError> {
    let mut prompt = neutral_line(&field.title);
    let hint = field.kind.hint();
    if !hint.is_empty() {
        prompt.push_str(&format!(" ({hint})"));
    }
    if !field.required {
        prompt.push_str(" (optional)");
    }
    match &field.kind {
        Kind::Text { .. } | Kind::Number { .. } => ask_text(term, field, &prompt),
        Kind::Boolean => ask_boolean(term, field, &prompt),
        Kind::One(choices) => ask_one(term, field, &prompt, choices),
        Kind::Many { choices, .. } => ask_many(term, field, &prompt, choices),
    }
}

fn ask_text(term: &Term, field: &Field, prompt: &str) -> Result<Option<Value>, AskError> {
    let theme = ColorfulTheme::default();
    let mut input = Input::<String>::with_theme(&theme)
        .with_prompt(prompt)
        .allow_empty(true)
        .validate_with(|typed: &String| field.parse(typed).map(|_| ()));
    if let Some(default) = field.usable_default() {
        input = input.with_initial_text(default.as_str().map_or_else(|| default.to_string(), neutral_line));
    }
    let typed = input.interact_text_on(term)?;
    // The validator has accepted it.
    Ok(field.parse(&typed).ok().flatten())
}

fn ask_boolean(term: &Term, field: &Field, prompt: &str) -> Result<Option<Value>, AskError> {
    let default = field.usable_default().and_then(Value::as_bool);
    if !field.required && default.is_none() {
        let choices = [true, false]
            .map(|v| Choice { value: Value::Bool(v), title: if v { "Yes".into() } else { "No".into() } });
        return ask_one(term, field, prompt, &choices);
    }
    let theme = ColorfulTheme::default();
    let mut confirm = Confirm::with_theme(&theme).with_prompt(prompt);
    if let Some(default) = default {
        confirm = confirm.default(default);
    }
    Ok(Some(Value::Bool(confirm.interact_on(term)?)))
}

fn ask_one(term: &Term, field: &Field, prompt: &str, choices: &[Choice]) -> Result<Option<Value>, AskError> {
    let mut items: Vec<String> = choices.iter().map(|c| neutral_line(&c.title)).collect();
    if !field.required {
        items.push("(leave out)".into());
    }
    let default = field.usable_default().and_then(|d| choices.iter().position(|c| c.value == *d));
    let at = Select::with_theme(&ColorfulTheme::default())
        .with_prompt(prompt)
        .items(&items)
        .default(default.unwrap_or(0))
        .interact_on(term)?;
    Ok(choices.get(at).map(|c| c.value.clone()))
}

fn ask_many(term: &Term, field: &Field, prompt: &str, choices: &[Choice]) -> Result<Option<Value>, AskError> {
    let chosen = field.usable_default().and_then(Value::as_array);
    let items: Vec<(String, bool)> = choices
        .iter()
        .map(|c| (neutral_line(&c.title), chosen.is_some_and(|values| values.contains(&c.value))))
        .collect();
    loop {
        let picked = MultiSelect::with_theme(&ColorfulTheme::default())
            .with_prompt(format!("{prompt}, space to choose"))
            .items_checked(items.clone())
            .interact_on(term)?;
        if picked.is_empty() && !field.required {
            return Ok(None);
        }
        let values = picked.iter().filter_map(|&i| choices.get(i)).map(|c| c.value.clone()).collect();
        let value = Value::Array(values);
        match field.check(&value) {
            Ok(()) => return Ok(Some(value)),
            Err(reason) => term.write_line(&style(format!("  {reason}")).for_stderr().red().to_string())?,
        }
    }
}
