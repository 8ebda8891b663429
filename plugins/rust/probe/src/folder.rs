//! Steps on files and settings, with waits between them, and a file that stays open over all of it.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    thread,
    time::Duration,
};

use layby_plugin::{
    prelude::*,
    types::{FormQuestion, InputRequest, Question},
};
use serde_json::json;

use super::standard::setting;

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Do {
    Read,
    List,
    Size,
    Write,
    Append,
    Rename,
    Remove,
    MakeFolder,
    RemoveFolder,
    /// A second name.
    Link,
    /// A symbolic link at `to` that leads to `path`.
    Symlink,
    /// Makes the file `bytes` long.
    Resize,
    /// Keeps `path` open, to read it.
    OpenRead,
    /// Keeps `path` open, to read and write it.
    OpenWrite,
    /// Keeps `path` open, to append to it.
    OpenAppend,
    /// Reads `bytes` of what is open.
    Take,
    /// Writes to what is open.
    Put,
    Close,
    /// The variable of the environment that `path` names.
    Variable,
    /// The value of the configuration that `path` names.
    Setting,
    /// Asks a question, and waits for the answer.
    Ask,
    Nap,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Step {
    r#do: Do,
    #[serde(default)]
    path: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    bytes: usize,
    #[serde(default)]
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Steps {
    steps: Vec<Step>,
}

/// Does one step after another, whatever they come to: what each came to, as a JSON array. What went wrong is
/// `"error: KIND"`.
#[tool]
pub(crate) fn steps(args: Steps, call: &Call) -> Result<String> {
    let mut open = None;
    let mut came_to = Vec::new();
    for step in &args.steps {
        came_to.push(one(step, &mut open, call).unwrap_or_else(|e| format!("error: {:?}", e.kind())));
    }
    Ok(json!(came_to).to_string())
}

fn one(step: &Step, open: &mut Option<File>, call: &Call) -> std::io::Result<String> {
    let Step { path, to, text, .. } = step;
    match step.r#do {
        Do::Read => return fs::read_to_string(path),
        Do::List => {
            let names =
                fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            return Ok(names.collect::<std::io::Result<Vec<_>>>()?.join(" "));
        }
        Do::Size => return Ok(fs::metadata(path)?.len().to_string()),
        Do::Write => fs::write(path, text)?,
        Do::Append => OpenOptions::new().create(true).append(true).open(path)?.write_all(text.as_bytes())?,
        Do::Rename => fs::rename(path, to)?,
        Do::Remove => fs::remove_file(path)?,
        Do::MakeFolder => fs::create_dir(path)?,
        Do::RemoveFolder => fs::remove_dir(path)?,
        Do::Link => fs::hard_link(path, to)?,
        Do::Symlink => symlink(path, to)?,
        Do::Resize => OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?
            .set_len(step.bytes as u64)?,
        Do::OpenRead => *open = Some(File::open(path)?),
        Do::OpenWrite => *open = Some(OpenOptions::new().read(true).write(true).open(path)?),
        Do::OpenAppend => *open = Some(OpenOptions::new().append(true).create(true).open(path)?),
        Do::Take => {
            let mut bytes = vec![0; step.bytes];
            let n = held(open)?.read(&mut bytes)?;
            return Ok(String::from_utf8_lossy(&bytes[..n]).into_owned());
        }
        Do::Put => held(open)?.write_all(text.as_bytes())?,
        Do::Close => *open = None,
        Do::Variable => return std::env::var(path).map_err(std::io::Error::other),
        Do::Setting => return setting(path).ok_or_else(|| std::io::ErrorKind::NotFound.into()),
        Do::Ask => {
            let schema = json!({ "type": "object", "properties": { "value": { "type": "string" } } });
            let question = FormQuestion { message: "Go on?".into(), schema: schema.to_string() };
            let request = InputRequest { key: "question".into(), question: Question::Form(question) };
            call.ask_raw(&[request]).map_err(|e| std::io::Error::other(e.to_string()))?;
        }
        Do::Nap => thread::sleep(Duration::from_millis(step.ms)),
    }
    Ok("ok".into())
}

#[expect(deprecated, reason = "there is no other that is stable for this target")]
fn symlink(path: &str, to: &str) -> std::io::Result<()> {
    fs::soft_link(path, to)
}

fn held(open: &mut Option<File>) -> std::io::Result<&mut File> {
    open.as_mut().ok_or_else(|| std::io::ErrorKind::NotFound.into())
}
