//! How a command ends: exit codes, and errors with a stable code.

use std::fmt;

use serde_json::{Value, json};

use crate::{
    base::{Fault, neutral_line},
    config::ConfigError,
    store::StoreError,
};

/// Exit codes, as `--help` and `docs/commands.md` list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// The tool or its task failed.
    Failed = 1,
    /// Wrong options, arguments or configuration.
    Usage = 2,
    /// The server or the store cannot be reached or used.
    Unreachable = 3,
    /// Refused, or there is no such thing.
    Refused = 4,
    /// The task goes on: it waits for an answer, or `--timeout` passed.
    Unfinished = 5,
    /// Stopped by Ctrl-C.
    Interrupted = 130,
}

/// The table of exit codes at the end of `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the tool or its task failed
  2    wrong options, arguments or configuration
  3    the server or the store cannot be reached or used
  4    refused, or there is no such tool, task or file
  5    the task goes on: it waits for an answer, or --timeout passed
  130  stopped by Ctrl-C";

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// Stable name, from `docs/errors.md`.
    pub(crate) code: String,
    /// What was wrong, and what to do.
    pub(crate) message: String,
    /// More for `--json`: an object. Boxed, because every command's result carries a `Failure`.
    pub(crate) data: Box<Value>,
}

impl Failure {
    /// A failure with `exit`, a stable `code` and what to do.
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), data: Box::new(json!({})) }
    }

    /// Wrong options or arguments.
    pub(crate) fn usage(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, code, message)
    }

    /// Not there, or not allowed.
    pub(crate) fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, code, message)
    }

    /// The server or the store cannot be used.
    pub(crate) fn unreachable(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, code, message)
    }

    /// What `--json` prints.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = self.data.as_object().cloned().unwrap_or_default();
        error.insert("code".into(), self.code.clone().into());
        error.insert("message".into(), self.message.clone().into());
        json!({"status": "error", "error": error})
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", neutral_line(&self.message), self.code)
    }
}

impl From<anyhow::Error> for Failure {
    /// Keeps the typed errors that bring their own code; anything else is `command_failed`.
    fn from(error: anyhow::Error) -> Self {
        let error = match error.downcast::<Failure>() {
            Ok(failure) => return failure,
            Err(error) => error,
        };
        let error = match error.downcast::<StoreError>() {
            Ok(store) => return store.into(),
            Err(error) => error,
        };
        if let Some(fault) = error.downcast_ref::<Fault>() {
            return fault.clone().into();
        }
        if let Some(config) = error.downcast_ref::<ConfigError>() {
            return Self::usage("config_invalid", config.to_string());
        }
        Self::new(Exit::Failed, "command_failed", format!("{error:#}"))
    }
}

impl std::error::Error for Failure {}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage("config_invalid", error.to_string())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let exit = match fault.code {
            code if code.starts_with("store_") => Exit::Unreachable,
            _ if fault.rpc == Fault::INTERNAL => Exit::Failed,
            _ => Exit::Refused,
        };
        Self {
            exit,
            code: fault.code.to_owned(),
            message: fault.message,
            data: Box::new(Value::Object(fault.data)),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Newer { .. } => "store_newer",
            StoreError::Locked(_) => "store_locked",
            StoreError::Corrupt(_) => "store_corrupt",
            StoreError::Full(_) => "store_full",
            StoreError::Unreachable(_) => "store_unreachable",
            StoreError::Closed => "store_closed",
            StoreError::Other(_) => "store_failed",
        };
        Self::unreachable(code, error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Failed, "command_failed", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_code_and_choose_an_exit() {
        let unknown: Failure = Fault::invalid("task_unknown", "no such task").into();
        assert_eq!((unknown.exit, unknown.code.as_str()), (Exit::Refused, "task_unknown"));
        let store: Failure = Fault::internal("store_full", "no space").into();
        assert_eq!(store.exit, Exit::Unreachable);
        let through: Failure = anyhow::Error::new(Failure::usage("x", "y")).into();
        assert_eq!((through.exit, through.code.as_str()), (Exit::Usage, "x"));
        let closed: Failure = anyhow::Error::new(StoreError::Closed).into();
        assert_eq!((closed.exit, closed.code.as_str()), (Exit::Unreachable, "store_closed"));
        let fault: Failure = anyhow::Error::new(Fault::invalid("task_unknown", "no")).into();
        assert_eq!(fault.code, "task_unknown");
    }

    #[test]
    fn the_message_cannot_steer_a_terminal() {
        let text = Failure::refused("x", "bad \x1b[2J\nname").to_string();
        assert_eq!(text, "bad \\u{1b}[2J name (x)");
    }
}
