//! From the start of the process until every plugin serves.

use std::time::Instant;

use anyhow::Result;

use super::{
    Effort,
    data::Data,
    process::Programs,
    table::{Row, Table, Unit},
};

/// How often a cached start is measured, for each round of the others: it is short.
const STARTS: usize = 3;

/// Ready with 20 plugins whose compiled form is there.
const TARGET_MS: f64 = 300.0;

/// Cold (nothing compiled, an empty data folder), and again with the compiled forms.
pub(super) fn rows(programs: &Programs, effort: Effort, table: &mut Table) -> Result<()> {
    let mut rows = Vec::new();
    for count in [1, 20] {
        let s = if count == 1 { "" } else { "s" };
        let mut cold = Vec::new();
        let mut cached = Vec::new();
        for round in 0..effort.rounds {
            let mut data = Data::new(&programs.folder, &format!("start-{count}-{round}"))?;
            for number in 1..=count {
                data.add("echo", &format!("echo{number}"), true)?;
            }
            cold.push(start(programs, &data)?);
            for _ in 0..STARTS {
                cached.push(start(programs, &data)?);
            }
        }
        rows.push(Row::new(format!("{count} plugin{s}, cold"), Unit::Millis, middle(cold)));
        let mut row = Row::new(format!("{count} plugin{s}, compiled before"), Unit::Millis, middle(cached));
        if count == 20 {
            row.target(format!("≤ {TARGET_MS:.0} ms"), row.value() <= TARGET_MS);
        }
        rows.push(row);
    }
    table.add("start to ready", rows);
    Ok(())
}

/// Milliseconds until all plugins of `data` serve; the host has ended when this returns.
pub(super) fn start(programs: &Programs, data: &Data) -> Result<f64> {
    let begin = Instant::now();
    let server = programs.host(data)?;
    let took = begin.elapsed();
    drop(server);
    Ok(took.as_secs_f64() * 1e3)
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
