//! The same tool in every guest language: what it costs to build, to load and to call.

use std::fs;

use anyhow::{Context, Result};

use super::{
    Effort, Group,
    data::Data,
    process::Programs,
    rows::{as_f64, drive, median, resident},
    start::start,
    table::{Row, Table, Unit},
};
use crate::plugins::{self, Language};

/// The plugin whose tool `echo` is called.
const PLUGIN: &str = "trial";
/// Connections of the rows that fill the server.
const MANY: usize = 64;
/// Plugins of one large runtime, each a component of its own.
const LARGE: usize = 20;
/// How often a start with compiled forms is measured: it is short.
const STARTS: usize = 3;

/// Rows of every language.
pub(super) fn rows(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    for language in Language::ALL {
        let guest = format!("{}/{PLUGIN}", language.name());
        let again = language.build_again(PLUGIN)?;
        let file = plugins::guests_dir().join(format!("{guest}.wasm"));
        let size = fs::metadata(&file).with_context(|| format!("no file {}", file.display()))?.len();
        let mut data = Data::new(&programs.folder, &format!("language-{}", language.name()))?;
        data.add(&guest, PLUGIN, false)?;
        let cold = start(programs, &data)?;
        let mut loads = (0..STARTS).map(|_| start(programs, &data)).collect::<Result<Vec<_>>>()?;
        loads.sort_by(f64::total_cmp);
        let mut rows = vec![
            Row::new("build after a change", Unit::Millis, again.as_secs_f64() * 1e3),
            Row::new("component", Unit::Bytes, as_f64(size)),
            Row::new("start to ready, compiling", Unit::Millis, cold),
            Row::new("start to ready, compiled before", Unit::Millis, loads[loads.len() / 2]),
        ];
        let server = programs.host(&data)?;
        for connections in [1, MANY] {
            let mut measured = Vec::new();
            for _ in 0..effort.rounds {
                measured.push(drive(programs, &server, "inline", connections, effort, &[])?);
            }
            let name = format!("inline calls, {connections} conn.");
            rows.push(Row::driven(name, Unit::PerSecond, &median(measured, "per_second")));
        }
        rows.push(Row::new("resident memory after them", Unit::Bytes, resident(&server)?));
        table.add(&format!("language: {}", language.name()), rows);
    }
    Ok(())
}

/// Many plugins whose components each hold the largest runtime, Python's.
pub(super) fn large(programs: &Programs, table: &mut Table) -> Result<()> {
    let guest = format!("{}/{PLUGIN}", Language::Python.name());
    let mut rows = Vec::new();
    for count in [1, LARGE] {
        let mut data = Data::new(&programs.folder, &format!("large-{count}"))?;
        for number in 1..=count {
            data.add(&guest, &format!("python{number}"), true)?;
        }
        let s = if count == 1 { "" } else { "s" };
        rows.push(Row::new(format!("{count} plugin{s}, compiling"), Unit::Millis, start(programs, &data)?));
        let cached = start(programs, &data)?;
        rows.push(Row::new(format!("{count} plugin{s}, compiled before"), Unit::Millis, cached));
        let server = programs.host(&data)?;
        rows.push(Row::new(format!("  resident with {count}, idle"), Unit::Bytes, resident(&server)?));
    }
    table.add("start to ready and memory, Python's runtime", rows);
    Ok(())
}

/// True for the groups that need the plugins of every language.
pub(super) fn wanted(groups: &[Group]) -> bool {
    groups.is_empty() || groups.contains(&Group::Languages)
}
