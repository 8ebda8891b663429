//! Tools that use up something: fuel, memory, time, output, progress.

use std::{
    fs::OpenOptions,
    hint::black_box,
    io::Write,
    thread,
    time::{Duration, Instant},
};

use layby_plugin::prelude::*;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Burn {
    /// How many rounds of a loop; without it, for ever.
    rounds: Option<u64>,
}

/// Computes: fuel.
#[tool]
pub(crate) fn burn(args: Burn) -> Result<String> {
    let rounds = args.rounds.unwrap_or(u64::MAX);
    let mut sum = 0_u64;
    for round in 0..rounds {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(round));
    }
    Ok(format!("{rounds} rounds gave {sum}"))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Grow {
    /// How much to take, in MiB.
    mib: usize,
    /// End with an error of its own where memory is refused, instead of a trap.
    #[serde(default)]
    careful: bool,
}

/// Takes memory, and touches every page of it.
#[tool]
pub(crate) fn grow(args: Grow) -> Result<String> {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for taken in 0..args.mib {
        let mut block = Vec::new();
        if args.careful {
            block.try_reserve_exact(1 << 20).map_err(|_| format!("refused after {taken} MiB"))?;
        }
        block.resize(1 << 20, 1);
        blocks.push(black_box(block));
    }
    let touched: usize = blocks.iter().map(|block| usize::from(block[1 << 19])).sum();
    Ok(format!("took {touched} MiB"))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nap {
    /// How long to sleep in all, in milliseconds.
    ms: u64,
    /// How long a step is: cancellation is checked after each. Without it, never.
    step_ms: Option<u64>,
}

/// Sleeps.
#[tool]
pub(crate) fn nap(args: Nap, call: &Call) -> Result<String> {
    let step = args.step_ms.unwrap_or(args.ms).max(1);
    let mut left = args.ms;
    while left > 0 {
        let now = step.min(left);
        thread::sleep(Duration::from_millis(now));
        left -= now;
        if args.step_ms.is_some() {
            call.check()?;
        }
    }
    Ok(format!("slept {} ms", args.ms))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Say {
    /// How many bytes the answer's text has.
    bytes: usize,
}

/// Answers with much text.
#[tool]
pub(crate) fn say(args: Say) -> Result<String> {
    Ok("x".repeat(args.bytes))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Report {
    /// How many reports, without a pause: 1 of n, 2 of n, …
    count: u32,
    /// A pause after each, in milliseconds.
    #[serde(default)]
    pause_ms: u64,
    /// Also values that are not finite, and ones that decrease.
    #[serde(default)]
    odd: bool,
}

/// Reports progress.
#[tool]
pub(crate) fn report(args: Report, call: &Call) -> Result<String> {
    let total = f64::from(args.count);
    for done in 1..=args.count {
        call.progress(f64::from(done), total, format!("step {done}"));
        if args.odd {
            for value in
                [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::from(done - 1), f64::from(done)]
            {
                call.progress(value, f64::NAN, format!("odd {value}"));
            }
        }
        if args.pause_ms > 0 {
            thread::sleep(Duration::from_millis(args.pause_ms));
        }
    }
    Ok(format!("reported {} times", args.count))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Shout {
    /// Bytes to standard error, in lines of 100.
    #[serde(default)]
    stderr: usize,
    /// Bytes to standard output, in lines of 100.
    #[serde(default)]
    stdout: usize,
    /// A line of its own to standard error, first.
    line: Option<String>,
}

/// Writes to the standard streams.
#[tool]
pub(crate) fn shout(args: Shout) -> Result<String> {
    if let Some(line) = args.line {
        writeln!(std::io::stderr(), "{line}")?;
    }
    lines(&mut std::io::stderr(), args.stderr)?;
    lines(&mut std::io::stdout(), args.stdout)?;
    std::io::stdout().flush()?;
    Ok(format!("wrote {} and {} bytes", args.stderr, args.stdout))
}

fn lines(to: &mut dyn Write, mut bytes: usize) -> Result<()> {
    let line = [[b'x'; 99].as_slice(), b"\n"].concat();
    while bytes > 0 {
        let part = bytes.min(line.len());
        to.write_all(&line[line.len() - part..])?;
        bytes -= part;
    }
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Stubborn {
    /// How long to go on, in milliseconds, whoever cancels.
    ms: u64,
    /// A file that gets a line every 10 ms.
    path: String,
}

/// Goes on after a cancel, with an effect that others can see.
#[tool]
pub(crate) fn stubborn(args: Stubborn, call: &Call) -> Result<String> {
    let start = Instant::now();
    let mut lines = 0;
    while start.elapsed() < Duration::from_millis(args.ms) {
        let mut file = OpenOptions::new().create(true).append(true).open(&args.path)?;
        lines += 1;
        writeln!(file, "line {lines}, cancelled {}", call.cancelled())?;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(format!("wrote {lines} lines"))
}
