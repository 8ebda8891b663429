//! Uses all that the kit has, as `trial` of every language does. The host's tests call it; nobody should
//! serve it.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant, SystemTime},
};

use layby_plugin::{
    form,
    logging::{self, Level},
    prelude::*,
    types::LogLevel,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Echo {
    text: String,
}

/// Not even what would be ignored.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Returns the text.
#[tool(read_only)]
fn echo(args: Echo) -> Result<String> {
    Ok(args.text)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fail {
    message: String,
}

/// Fails with the message.
#[tool]
fn fail(args: Fail) -> Result<()> {
    Err(args.message.into())
}

/// Traps.
#[tool]
fn trap(_: Nothing) -> Result<()> {
    panic!("told to panic");
}

/// Computes for ever.
#[tool]
fn spin(_: Nothing) -> Result<()> {
    let mut rounds = 0_u64;
    loop {
        rounds = black_box(rounds.wrapping_add(1));
    }
}

/// Waits until it is cancelled.
#[tool]
fn wait(_: Nothing, call: &Call) -> Result<()> {
    let mut turns = 0.0;
    loop {
        turns += 1.0;
        call.progress(turns, 0.0, "");
        if let Err(cancelled) = call.check() {
            call.log(LogLevel::Notice, "stopped on request");
            return Err(cancelled.into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[derive(Deserialize, JsonSchema)]
struct Reply {
    value: String,
}

/// Asks two questions at once.
#[tool]
fn ask(_: Nothing, call: &Call) -> Result<String> {
    let questions = (form::<Reply>("first", "The first?"), form::<Reply>("second", "The second?"));
    let (first, second) = call.ask_all(questions)?;
    Ok(format!("first: {}, second: {}", shown(first), shown(second)))
}

fn shown(answer: Answer<Reply>) -> String {
    match answer {
        Answer::Accepted(Reply { value }) => value,
        Answer::Declined => "declined".to_owned(),
        Answer::Dismissed => "dismissed".to_owned(),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    key: String,
}

/// Returns a value of the plugin's configuration.
#[tool]
fn config(args: Config) -> Result<String> {
    Ok(layby_plugin::config::get(&args.key)?.unwrap_or_else(|| "no value".to_owned()))
}

/// Writes a line to each place for lines.
#[tool]
fn log(_: Nothing, call: &Call) -> Result<String> {
    logging::log(Level::Warn, "trial", "a line by wasi:logging");
    call.log(LogLevel::Notice, "a line by the call");
    eprintln!("a line on standard error");
    println!("a line on standard output");
    Ok("logged".to_owned())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rounds {
    /// How many rounds.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 100))]
    rounds: u32,
    /// How long to sleep after each answer, in milliseconds.
    #[serde(default)]
    #[schemars(range(max = 3_600_000))]
    sleep_ms: u64,
}

fn three() -> u32 {
    3
}

/// What a round leaves in memory.
struct Round {
    random: u64,
    #[allow(dead_code, reason = "it only has to be the same when the call is resumed")]
    wall: SystemTime,
    begun: Instant,
    answer: String,
}

/// Draws a number, asks about it and sleeps, round after round, and tells all at the end.
#[tool]
fn rounds(args: Rounds, call: &Call) -> Result<String> {
    let pause = Duration::from_millis(args.sleep_ms);
    let mut kept: Vec<Round> = Vec::new();
    for number in 1..=args.rounds {
        let (random, wall, begun) = (getrandom::u64()?, SystemTime::now(), Instant::now());
        call.progress(number.into(), args.rounds.into(), "");
        println!("round {number}");
        let answer = shown(call.ask_form::<Reply>("round", format!("round {number}: {random:016x}"))?);
        kept.push(Round { random, wall, begun, answer });

        let asleep = Instant::now();
        thread::sleep(pause);
        let awake = Instant::now();
        if kept.iter().any(|round| awake < round.begun) {
            return Err("the clock went back".into());
        }
        if awake.duration_since(asleep) < pause {
            return Err("slept too little".into());
        }
    }
    let lines = kept.iter().enumerate();
    let lines: Vec<_> =
        lines.map(|(i, round)| format!("{} {:016x} {}", i + 1, round.random, round.answer)).collect();
    let text = lines.join("\n");
    Ok(format!("{text}\ndigest {:016x}", fnv1a(text.as_bytes())))
}

/// FNV-1a of 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

layby_plugin::plugin!(ask, config, echo, fail, log, rounds, spin, trap, wait);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use layby_plugin::{
        Tool as _,
        testing::Host,
        types::{Content, InputAnswer, Question, ToolError, ToolResult},
    };

    use super::*;

    fn text(result: &ToolResult) -> &str {
        match result.content.as_slice() {
            [Content::Text(text)] => text,
            other => panic!("not one text: {other:?}"),
        }
    }

    #[test]
    fn the_message_is_the_failure() {
        let host = Host::new();
        let Err(ToolError::Failed(result)) = host.call_tool::<fail>(r#"{"message":"no luck"}"#) else {
            panic!("it did not fail")
        };
        assert_eq!(text(&result), "no luck");
        assert_eq!(text(&host.call_tool::<echo>(r#"{"text":"ü"}"#).unwrap()), "ü");
    }

    #[test]
    fn both_questions_are_put_at_once() {
        let accepted = InputAnswer::Accepted(r#"{"value":"a"}"#.to_owned());
        let host = Host::new().answer(accepted).answer(InputAnswer::Declined);
        assert_eq!(text(&host.call_tool::<ask>("{}").unwrap()), "first: a, second: declined");
        let keys: Vec<_> = host.asked().into_iter().map(|request| request.key).collect();
        assert_eq!(keys, ["first", "second"]);
        assert!(matches!(Host::new().call_tool::<ask>("{}"), Err(ToolError::Unsupported)));
    }

    #[test]
    fn rounds_tell_what_they_drew_and_heard() {
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        let accepted = InputAnswer::Accepted(r#"{"value":"a"}"#.to_owned());
        let host = Host::new().answer(accepted).answer(InputAnswer::Declined).answer(InputAnswer::Dismissed);
        let result = host.call_tool::<rounds>(r#"{"sleep_ms":2}"#).unwrap();
        let drawn: Vec<_> = host
            .asked()
            .into_iter()
            .zip(1..)
            .map(|(request, number)| {
                assert_eq!(request.key, "round");
                let Question::Form(form) = request.question else { panic!("not a form") };
                form.message.strip_prefix(&format!("round {number}: ")).unwrap().to_owned()
            })
            .collect();
        assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2], "{drawn:?}");
        let lines = format!("1 {} a\n2 {} declined\n3 {} dismissed", drawn[0], drawn[1], drawn[2]);
        assert_eq!(text(&result), format!("{lines}\ndigest {:016x}", fnv1a(lines.as_bytes())));
        let done: Vec<_> = host.progress().into_iter().map(|(done, total, _)| (done, total)).collect();
        assert_eq!(done, [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))]);
    }

    #[test]
    fn bounds_are_told_and_whole_numbers_taken() {
        let schema = rounds::definition().input_schema;
        for bound in [r#""minimum":1,"#, r#""maximum":100"#, r#""minimum":0,"#, r#""maximum":3600000"#] {
            assert!(schema.contains(bound), "{schema}");
        }
        let host = Host::new().answer(InputAnswer::Declined);
        assert!(host.call_tool::<rounds>(r#"{"rounds":1.0,"sleep_ms":1e0}"#).is_ok());
    }

    #[test]
    fn it_waits_until_it_is_told() {
        let host = Host::new().cancel_after(2);
        assert!(matches!(host.call_tool::<wait>("{}"), Err(ToolError::Cancelled)));
        let turns: Vec<_> = host.progress().into_iter().map(|(done, ..)| done).collect();
        assert_eq!(turns, [1.0, 2.0, 3.0]);
        assert!(
            matches!(host.logged().as_slice(), [(LogLevel::Notice, line)] if line == "stopped on request")
        );
    }
}
