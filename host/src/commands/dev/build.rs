//! One build: a command in a process group of its own, its output shown as it comes.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{project::Project, say::Say};
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
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Runs the build to its end; how long it took. `stop` ends it early, with all that it has started.
///
/// # Errors
/// `build_not_started`, `build_failed`, `build_timed_out`, `build_stopped`.
pub(super) async fn run(project: &Project, say: Say, stop: &CancellationToken) -> Result<Duration, Failure> {
    let started = Instant::now();
    let mut group = start(project)?;
    let mut output = JoinSet::new();
    if let Some(out) = group.child.stdout.take() {
        output.spawn(pump(out, say));
    }
    if let Some(err) = group.child.stderr.take() {
        output.spawn(pump(err, say));
    }
    let limit = project.file.build_timeout;
    let status = tokio::select! {
        status = group.child.wait() => Ok(status),
        () = tokio::time::sleep(limit.duration()) => Err(timed_out(limit)),
        () = stop.cancelled() => Err(failed("build_stopped", "the build was stopped")),
    };
    let status = match status {
        Ok(status) => status.map_err(Failure::from)?,
        Err(failure) => {
            group.end().await;
            return Err(failure);
        }
    };
    let all = async { while output.join_next().await.is_some() {} };
    if tokio::time::timeout(DevRules::OUTPUT_GRACE.duration(), all).await.is_err() {
        // It left something behind that still writes: a build has ended when its command has.
        group.signal(Signal::KILL);
    }
    group.id = None;
    if status.success() { Ok(started.elapsed()) } else { Err(exited(status)) }
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

/// Shows what comes line by line, until its end.
async fn pump(mut from: impl AsyncRead + Unpin, say: Say) {
    let (mut line, mut chunk) = (Vec::new(), vec![0; DevRules::LINE]);
    let show = |line: &mut Vec<u8>| {
        // A progress bar draws over its own line: its last state is what stays.
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\r', '\n']);
        say.output(&console::strip_ansi_codes(text.rsplit('\r').next().unwrap_or(text)));
        line.clear();
    };
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
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
