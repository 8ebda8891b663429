//! The main job, told step by step: a sandboxed tool that asks before it deletes.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    node::{self, Node},
    server::Server,
    sh,
};

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Keep the sample folder, the data and the server's log.
    #[arg(long)]
    keep: bool,
    /// Answer the question with "decline": then nothing is deleted.
    #[arg(long)]
    decline: bool,
}

/// Files of the sample folder: path and contents. Three groups of equal files, and two files that are alone.
const SAMPLE: [(&str, &str); 9] = [
    ("photos/beach.jpg", "the beach, in the morning"),
    ("photos/copy of beach.jpg", "the beach, in the morning"),
    ("backup/beach.jpg", "the beach, in the morning"),
    ("photos/dog.jpg", "the dog, asleep"),
    ("backup/dog.jpg", "the dog, asleep"),
    ("notes/list.txt", "eggs, milk, bread"),
    ("notes/list (1).txt", "eggs, milk, bread"),
    ("notes/diary.txt", "It rained."),
    ("taxes.pdf", "a form"),
];

pub(crate) fn run(args: Args) -> Result<()> {
    let layby = node::build_host()?;
    let me = std::env::current_exe().context("cannot find this program")?;
    sh::run("the plugin tidy", Command::new(me).args(["plugins", "tidy"]))?;
    let node = Node::find()?;
    node.install(&node::clients())?;

    let place = Place::make(args.keep)?;
    say("A folder with duplicates");
    show(&place.sample())?;

    let server = serve(&layby, &place)?;
    say(&format!("A Layby host serves the plugin `tidy` at {}", server.url));
    println!("  It may read and delete in that one folder, and ask questions. Nothing else.");

    let answer = if args.decline { json!("decline") } else { json!({"delete": true, "keep": "first"}) };
    let plan = json!({"tool": "tidy_folder", "arguments": {}, "answers": {"delete_duplicates": answer}});
    let told = drive(&node, &server.url, &plan)?;
    drop(server);

    say("The folder afterwards");
    let left = show(&place.sample())?;
    let expected = if args.decline { SAMPLE.len() } else { 5 };
    ensure!(told.asked && told.completed, "the call did not go through question and answer to a result");
    ensure!(left == expected, "{expected} files should be left, and {left} are");
    if args.keep {
        println!("\nKept in {}", place.root.display());
    }
    Ok(())
}

fn say(what: &str) {
    println!("\n== {what}");
}

/// The demo's own folder, removed at the end.
struct Place {
    root: PathBuf,
    keep: bool,
}

impl Place {
    fn make(keep: bool) -> Result<Self> {
        let root = std::env::temp_dir().join(format!("layby-demo-{}", std::process::id()));
        let place = Self { root, keep };
        for (path, contents) in SAMPLE {
            let path = place.sample().join(path);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::write(&path, contents).with_context(|| format!("cannot write {}", path.display()))?;
        }
        fs::create_dir_all(place.plugins())?;
        let built = sh::root().join("target/plugins/tidy.wasm");
        fs::copy(&built, place.plugins().join("tidy.wasm"))
            .with_context(|| format!("cannot copy {}", built.display()))?;
        let policy = format!(
            "[grants]\nask = [\"form\"]\nfiles = [{{ host = {}, guest = \"/folder\", write = true }}]\n",
            json!(place.sample())
        );
        fs::write(place.plugins().join("tidy.toml"), policy)?;
        Ok(place)
    }

    fn sample(&self) -> PathBuf {
        self.root.join("sample")
    }

    fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // The system's own cleaning takes what is left.
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// Prints the files of a folder, sorted; returns how many there are.
fn show(folder: &Path) -> Result<usize> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at)? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    for file in &files {
        let name = file.strip_prefix(folder).unwrap_or(file);
        println!("  {:<28} {:?}", name.display().to_string(), fs::read_to_string(file)?);
    }
    Ok(files.len())
}

/// A host with nothing but this plugin.
fn serve(layby: &Path, place: &Place) -> Result<Server> {
    let mut command = Command::new(layby);
    command.args(["serve", "--listen", "127.0.0.1:0", "--plugins"]).arg(place.plugins());
    command.arg("--data").arg(place.root.join("data")).current_dir(&place.root);
    Server::host(command, &place.root.join("server.log"), 1)
}

/// What the client saw.
#[derive(Default)]
struct Told {
    asked: bool,
    completed: bool,
}

/// Runs the npm client and tells what it prints.
fn drive(node: &Node, url: &str, plan: &Value) -> Result<Told> {
    let mut command = node.command("tasks.mjs");
    let mut child = command
        .args([url, &plan.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start Node")?;
    let out = child.stdout.take().context("the client has no output")?;
    let mut told = Told::default();
    for line in BufReader::new(out).lines() {
        let line = line?;
        let event = serde_json::from_str(&line).with_context(|| format!("the client printed {line:?}"))?;
        tell(&event, &mut told);
    }
    let status = child.wait()?;
    ensure!(status.success(), "the client ended with {status}");
    Ok(told)
}

fn tell(event: &Value, told: &mut Told) {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match text("/event") {
        "connected" => {
            say("npm's @modelcontextprotocol/ext-tasks connects");
            println!("  tools: {}", event["tools"]);
        }
        "call" => say(&format!("It calls {} with {}", text("/tool"), event["arguments"])),
        "execution" => match event["taskId"].as_str() {
            Some(id) => println!("  The tool has a question, so the call is now a durable task: {id}"),
            None => println!("  It was answered inline."),
        },
        "question" => {
            told.asked = true;
            say(&format!("The plugin asks ({})", text("/key")));
            text("/params/message").lines().for_each(|line| println!("  {line}"));
        }
        "answer" => say(&format!("The caller answers {}", event["answer"])),
        "task" => {
            let message = event["statusMessage"].as_str().map(|m| format!(": {m}")).unwrap_or_default();
            println!("  task is {}{message}", text("/status"));
        }
        "outcome" => {
            told.completed = text("/status") == "completed" && event["result"]["isError"] != true;
            say(&format!("The task ends: {}", text("/status")));
            text("/result/content/0/text").lines().for_each(|line| println!("  {line}"));
            if !event["error"].is_null() {
                println!("  {}", event["error"]);
            }
        }
        _ => println!("  {event}"),
    }
}
