//! One build: a command in a process group of its own, its output shown as it comes.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    project::Project,
    say::{Say, Tone},
};
use crate::{
    base::Millis,
    commands::exit::{Exit, Failure},
    config::DevRules,
};

/// The processes of a build. Dropped before its time, it kills them.
struct Group {
    child: Child,
    id: Option<Pid>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // All of them may have ended.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Politely, then by force; returns when the command itself has ended.
    async fn end(&mut self) {
        self.signal(Signal::TERM);
        let grace = DevRules::BUILD_GRACE.duration();
        if tokio::time::timeout(grace, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
        // What ignored the first signal, and is not the command itself.
        self.signal(Signal::KILL);
        self.id = None;
    }

    /// Names of the processes that live, where the command itself has ended.
    fn left(&self) -> Vec<String> {
        let Some(id) = self.id.filter(|id| test_kill_process_group(*id).is_ok()) else { return Vec::new() };
        let Ok(all) = std::fs::read_dir("/proc") else { return vec!["unknown".to_owned()] };
        let stat = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("stat")).ok();
        all.flatten().filter_map(stat).filter_map(|stat| member(&stat, id)).collect()
    }

    /// Returns once none of them lives.
    async fn empty(&self) {
        while !self.left().is_empty() {
            tokio::time::sleep(DevRules::LEFT_POLL.duration()).await;
        }
    }

    /// Ends what the command has left behind, and says so: a build has ended when its command has.
    async fn end_left(&mut self, say: Say, stop: &CancellationToken) {
        let left = self.left();
        if !left.is_empty() {
            let text = format!("left running, and ended now: {}", left.join(", "));
            say.event(Tone::Warn, "build", &text, "build_left", json!({"processes": left}));
            self.signal(Signal::TERM);
            tokio::select! {
                () = self.empty() => {}
                () = tokio::time::sleep(DevRules::BUILD_GRACE.duration()) => {}
                () = stop.cancelled() => {}
            }
            self.signal(Signal::KILL);
        }
        self.id = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The name of the process of `/proc/PID/stat`, where it is in the group and lives.
fn member(stat: &str, group: Pid) -> Option<String> {
    // A name may hold anything.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut rest = rest.split_ascii_whitespace();
    let (state, own) = (rest.next()?, rest.nth(1)?);
    let lives = !matches!(state, "Z" | "X");
    (lives && own.parse() == Ok(group.as_raw_nonzero().get())).then(|| name.to_owned())
}

/// Runs the build to its end; how long it took. `stop` ends it early, with all that it has started.
///
/// # Errors
/// `build_not_started`, `build_failed`, `build_timed_out`, `build_stopped`.
pub(super) async fn run(project: &Project, say: Say, stop: &CancellationToken) -> Result<Duration, Failure> {
    let started = Instant::now();
    let mut group = start(project)?;
    let ended = CancellationToken::new();
    let mut output = JoinSet::new();
    if let Some(out) = group.child.stdout.take() {
        output.spawn(pump(out, say, ended.clone()));
    }
    if let Some(err) = group.child.stderr.take() {
        output.spawn(pump(err, say, ended.clone()));
    }
    let limit = project.file.build_timeout;
    let status = tokio::select! {
        status = group.child.wait() => Ok(status),
        () = tokio::time::sleep(limit.duration()) => Err(timed_out(limit)),
        () = stop.cancelled() => Err(failed("build_stopped", "the build was stopped")),
    };
    let took = started.elapsed();
    let grace = DevRules::OUTPUT_GRACE.duration();
    let status = match status {
        Ok(status) => {
            // What is in the pipes is little, and waits for no reader.
            ended.cancel();
            let quiet = async {
                while output.join_next().await.is_some() {}
                group.empty().await;
            };
            // The last words of what runs beside the command, such as `tee`.
            let _ = tokio::time::timeout(grace, quiet).await;
            group.end_left(say, stop).await;
            status.map_err(Failure::from)
        }
        Err(failure) => {
            group.end().await;
            ended.cancel();
            Err(failure)
        }
    };
    // What has left the group may hold the pipes for ever.
    let _ = tokio::time::timeout(grace, async { while output.join_next().await.is_some() {} }).await;
    let status = status?;
    if status.success() { Ok(took) } else { Err(exited(status)) }
}

fn start(project: &Project) -> Result<Group, Failure> {
    let [program, arguments @ ..] = project.file.build.as_slice() else {
        return Err(failed("build_not_started", "the build has no command"));
    };
    let child = Command::new(program)
        .args(arguments)
        .current_dir(&project.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| {
            let text = format!("{program:?} cannot be started: {e}. Is it installed, and in PATH?");
            failed("build_not_started", text)
        })?;
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    Ok(Group { child, id })
}

/// Shows what comes line by line, until its end. Who does not read it holds up the build, until that has `ended`.
async fn pump(mut from: impl AsyncRead + Unpin, say: Say, ended: CancellationToken) {
    let (mut line, mut chunk) = (Vec::new(), vec![0; DevRules::LINE]);
    let show = |line: &mut Vec<u8>| {
        // A progress bar draws over its own line: its last state is what stays.
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\r', '\n']);
        say.output(&console::strip_ansi_codes(text.rsplit('\r').next().unwrap_or(text)));
        line.clear();
    };
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        tokio::select! {
            () = say.room() => {}
            () = ended.cancelled() => {}
        }
        for &byte in chunk.iter().take(read) {
            if byte != b'\n' {
                line.push(byte);
            }
            if byte == b'\n' || line.len() >= DevRules::LINE {
                show(&mut line);
            }
        }
    }
    if !line.is_empty() {
        show(&mut line);
    }
}

fn failed(code: &str, text: impl Into<String>) -> Failure {
    Failure::new(Exit::Failed, code, text)
}

fn timed_out(limit: Millis) -> Failure {
    let text =
        format!("the build took longer than {limit} (build-timeout in {}), and was stopped", DevRules::FILE);
    Failure::new(Exit::Failed, "build_timed_out", text)
}

fn exited(status: ExitStatus) -> Failure {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    };
    Failure::new(Exit::Failed, "build_failed", format!("the build ended with {how}; its output is above"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn members_of_a_group_are_those_that_live() {
        let group = Pid::from_raw(7).unwrap();
        let name = |stat: &str| member(stat, group);
        assert_eq!(name("9 (sleep) S 1 7 7 0").as_deref(), Some("sleep"));
        assert_eq!(name("9 (a (b) c) R 1 7 7 0").as_deref(), Some("a (b) c"));
        for other in ["9 (sleep) Z 1 7 7 0", "9 (sleep) S 7 8 7 0", "9 sleep", "", "9 () S"] {
            assert_eq!(name(other), None, "{other}");
        }
    }
}
