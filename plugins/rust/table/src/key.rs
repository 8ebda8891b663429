//! Which column identifies a row.

use layby_plugin::{
    prelude::*,
    types::{FormQuestion, InputAnswer, InputRequest, Question},
};
use serde_json::json;

use crate::column::Column;

/// What the caller fills in.
#[derive(Deserialize)]
struct Chosen {
    key: String,
}

/// The index of the column: the one that is `given`, the first that could be it, or the caller's choice.
pub(crate) fn find(columns: &[Column], rows: u64, given: Option<&str>, call: &Call) -> Result<Option<usize>> {
    let of = |name: &str| columns.iter().position(|column| column.name == name);
    if let Some(name) = given {
        return of(name).map(Some).ok_or_else(|| no_column(name, columns));
    }
    if rows == 0 {
        return Ok(None);
    }
    if let Some(unique) = columns.iter().position(|column| column.distinct() == rows) {
        return Ok(Some(unique));
    }
    match ask(columns, call)? {
        Some(name) => of(&name).map(Some).ok_or_else(|| no_column(&name, columns)),
        None => Ok(None),
    }
}

/// By the raw interface: the choices are known only now, and a type has none of those.
fn ask(columns: &[Column], call: &Call) -> Result<Option<String>> {
    let names: Vec<_> = columns.iter().map(|column| &column.name).collect();
    let schema = json!({
        "type": "object",
        "properties": { "key": { "type": "string", "enum": names } },
        "required": ["key"],
    });
    let message = "No column has a different value in every row. Which one identifies a row?".to_owned();
    let question = Question::Form(FormQuestion { message, schema: schema.to_string() });
    let answers = call.ask_raw(&[InputRequest { key: "key_column".to_owned(), question }])?;
    Ok(match answers.first() {
        Some(InputAnswer::Accepted(json)) => Some(serde_json::from_str::<Chosen>(json)?.key),
        _ => None,
    })
}

fn no_column(name: &str, columns: &[Column]) -> Error {
    let names: Vec<_> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    Error::failed(format!("there is no column \"{name}\"; there are {}", names.join(", ")))
}
