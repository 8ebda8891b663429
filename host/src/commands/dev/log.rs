//! The host's log as lines of `layby dev`: what plugins write, what becomes of calls, and what worries the host.

use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Layer};

use super::say::{Say, Tone};

/// What the layer is to see: all that plugins write, and warnings of the host itself.
pub(crate) const FILTER: &str = "warn,rmcp=off,layby=warn,layby::plugin=debug,layby::calls=debug";

/// Prints events.
pub(crate) struct Lines(pub(crate) Say);

/// An event's fields.
#[derive(Default)]
struct Fields {
    message: String,
    rest: Map<String, Value>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => drop(self.rest.insert(name.to_owned(), value)),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.rest.get(name).and_then(Value::as_str)
    }

    /// The tool, and the task that its run has become.
    fn subject(&self) -> String {
        let tool = self.text("tool").or_else(|| self.text("work")).or_else(|| self.text("plugin"));
        match (tool.unwrap_or("host"), self.text("task")) {
            (tool, Some(task)) => format!("{tool} [{task}]"),
            (tool, None) => tool.to_owned(),
        }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        let mut fields = Fields::default();
        event.record(&mut fields);
        // Told from the catalog, with more.
        if target.starts_with("layby::plugins") && fields.rest.contains_key("code") {
            return;
        }
        let (subject, message) = (fields.subject(), fields.message.clone());
        let mut members = fields.rest;
        if target == "layby::calls" {
            let ms = members.get("ms").and_then(Value::as_u64).unwrap_or_default();
            members.insert("outcome".into(), message.clone().into());
            let tone = if message == "ok" { Tone::Good } else { Tone::Plain };
            return self.0.event(
                tone,
                "call",
                &format!("{subject}: {message}, {ms} ms"),
                "call",
                members.into(),
            );
        }
        let (tone, level) = match level {
            Level::ERROR => (Tone::Bad, "error"),
            Level::WARN => (Tone::Warn, "warning"),
            Level::INFO => (Tone::Plain, "info"),
            _ => (Tone::Dim, "debug"),
        };
        members.insert("level".into(), level.into());
        members.insert("message".into(), message.clone().into());
        let (word, name) = if target == "layby::plugin" { ("log", "log") } else { ("host", "host") };
        self.0.event(tone, word, &format!("{subject} {level}: {message}"), name, members.into());
    }
}
