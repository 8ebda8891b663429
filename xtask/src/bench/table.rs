//! The rows, and how they are printed.

use anyhow::Result;
use serde_json::{Value, json};

/// What a value counts.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    PerSecond,
    Millis,
    Bytes,
    /// The value is the row's p99.
    P99,
    /// The value is the row's p50.
    P50,
    /// The value is the server's processor time for each request.
    Cpu,
}

/// One thing that was measured.
pub(super) struct Row {
    name: String,
    unit: Unit,
    value: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    cpu_us: Option<f64>,
    /// To what it is compared, and the value divided by that one's.
    ratio: Option<(String, f64)>,
    /// What it should be, and whether it is.
    targets: Vec<(String, bool)>,
}

impl Row {
    pub(super) fn new(name: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self {
            name: name.into(),
            unit,
            value,
            p50_us: None,
            p99_us: None,
            cpu_us: None,
            ratio: None,
            targets: Vec::new(),
        }
    }

    /// From the driver's summary.
    pub(super) fn driven(name: impl Into<String>, unit: Unit, summary: &Value) -> Self {
        let number = |key: &str| summary[key].as_f64();
        let value = match unit {
            Unit::P99 => number("p99_us"),
            Unit::P50 => number("p50_us"),
            Unit::Cpu => number("cpu_us"),
            _ => number("per_second"),
        };
        Self {
            p50_us: number("p50_us"),
            p99_us: number("p99_us"),
            cpu_us: number("cpu_us"),
            ..Self::new(name, unit, value.unwrap_or(f64::NAN))
        }
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }

    /// Compares with `other`, called `what`; returns the ratio.
    pub(super) fn compare(&mut self, what: &str, other: f64) -> f64 {
        let ratio = self.value / other;
        self.compared(what, ratio);
        ratio
    }

    /// It is `ratio` times what is called `what`.
    pub(super) fn compared(&mut self, what: &str, ratio: f64) {
        self.ratio = Some((what.to_owned(), ratio));
    }

    pub(super) fn target(&mut self, text: impl Into<String>, met: bool) {
        self.targets.push((text.into(), met));
    }

    fn cells(&self) -> [String; 8] {
        let value = match self.unit {
            Unit::PerSecond => format!("{} /s", thousands(self.value)),
            Unit::Millis => format!("{:.0} ms", self.value),
            Unit::Bytes if self.value < 10.0 * 1024.0 => format!("{:.0} B", self.value),
            Unit::Bytes if self.value < 1024.0 * 1024.0 => format!("{:.0} KiB", self.value / 1024.0),
            Unit::Bytes => format!("{:.1} MiB", self.value / 1024.0 / 1024.0),
            Unit::P99 | Unit::P50 => time(Some(self.value)),
            Unit::Cpu => format!("{:.1} µs", self.value),
        };
        let ratio =
            self.ratio.as_ref().map(|(what, ratio)| format!("{ratio:.2} × {what}")).unwrap_or_default();
        let targets: Vec<_> = self.targets.iter().map(|(text, _)| text.as_str()).collect();
        let mark = match (self.targets.is_empty(), self.targets.iter().all(|(_, met)| *met)) {
            (true, _) => "",
            (false, true) => "ok",
            (false, false) => "FAIL",
        };
        let cpu = self.cpu_us.map(|us| format!("{us:.1} µs")).unwrap_or_default();
        [
            self.name.clone(),
            value,
            time(self.p50_us),
            time(self.p99_us),
            cpu,
            ratio,
            targets.join(", "),
            mark.to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let unit = match self.unit {
            Unit::PerSecond => "per_second",
            Unit::Millis => "ms",
            Unit::Bytes => "bytes",
            Unit::P99 => "p99_us",
            Unit::P50 => "p50_us",
            Unit::Cpu => "cpu_us",
        };
        let targets: Vec<_> =
            self.targets.iter().map(|(text, met)| json!({ "target": text, "met": met })).collect();
        json!({
            "row": self.name,
            "unit": unit,
            "value": self.value,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "cpu_us": self.cpu_us,
            "ratio": self.ratio.as_ref().map(|(what, ratio)| json!({ "to": what, "is": ratio })),
            "targets": targets,
        })
    }
}

const HEAD: [&str; 8] = ["row", "value", "p50", "p99", "cpu", "ratio", "target", ""];

/// All rows, in groups.
#[derive(Default)]
pub(super) struct Table {
    groups: Vec<(String, Vec<Row>)>,
}

impl Table {
    pub(super) fn add(&mut self, group: &str, rows: Vec<Row>) {
        for row in &rows {
            eprintln!("xtask:   {}", row.cells().join("  "));
        }
        self.groups.push((group.to_owned(), rows));
    }

    /// How many targets were missed.
    pub(super) fn missed(&self) -> usize {
        let targets = self.groups.iter().flat_map(|(_, rows)| rows).flat_map(|row| &row.targets);
        targets.filter(|(_, met)| !met).count()
    }

    #[allow(clippy::print_stdout)]
    pub(super) fn print(&self, as_json: bool, note: &str) -> Result<()> {
        if as_json {
            let rows: Vec<_> = self
                .groups
                .iter()
                .flat_map(|(group, rows)| rows.iter().map(move |row| (group, row.json())))
                .map(|(group, mut row)| {
                    row["group"] = json!(group);
                    row
                })
                .collect();
            let all = json!({ "setting": note, "rows": rows, "missed": self.missed() });
            println!("{}", serde_json::to_string_pretty(&all)?);
        } else {
            print!("{}", self.text());
            println!("\n{note}; {} targets missed", self.missed());
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut lines = vec![HEAD.map(str::to_owned)];
        for (group, rows) in &self.groups {
            let mut heading = HEAD.map(|_| String::new());
            heading[0] = format!("[{group}]");
            lines.push(heading);
            lines.extend(rows.iter().map(Row::cells));
        }
        let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..HEAD.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let cells: Vec<String> = line
                .iter()
                .enumerate()
                .map(|(column, cell)| {
                    let width = widths[column];
                    // Numbers to the right, words to the left.
                    if (1..=4).contains(&column) {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

fn time(us: Option<f64>) -> String {
    match us {
        None => String::new(),
        Some(us) if us < 1000.0 => format!("{us:.0} µs"),
        Some(us) => format!("{:.2} ms", us / 1000.0),
    }
}

/// A whole number with commas.
pub(super) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(thousands(7.4), "7");
        assert_eq!(thousands(123.0), "123");
        assert_eq!(thousands(1234.0), "1,234");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(time(Some(12.3)), "12 µs");
        assert_eq!(time(Some(1234.0)), "1.23 ms");
    }

    #[test]
    fn columns_are_aligned_and_misses_counted() {
        let mut row = Row::new("a call", Unit::PerSecond, 50_000.0);
        assert!((row.compare("rmcp", 100_000.0) - 0.5).abs() < 1e-9);
        row.target("≥ 1.00", false);
        let mut table = Table::default();
        table.add("calls", vec![row, Row::new("x", Unit::Bytes, 2048.0)]);
        let text = table.text();
        assert_eq!(table.missed(), 1);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "a call   50,000 /s                 0.50 × rmcp  ≥ 1.00  FAIL");
        assert_eq!(lines[3], "x           2048 B");
    }
}
