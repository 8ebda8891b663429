//! A plugin that exceeds one limit per tool, as far as its arguments say. The host's tests call it;
//! nobody should serve it.

mod asking;
mod endings;
mod fetching;
mod folder;
mod outside;
mod standard;
mod telling;
mod work;

use asking::ask;
use endings::{cancelled, fail, other, protocol, structured, trap, unsupported};
use fetching::fetch;
use folder::steps;
use outside::{clock, connect, env, list, random, read, write};
use standard::{config, note};
use telling::{changed, log, place};
use work::{burn, grow, nap, report, say, shout, stubborn};

layby_plugin::plugin! {
    tools: [
        ask,
        burn,
        cancelled,
        changed,
        clock,
        config,
        connect,
        env,
        fail,
        fetch,
        grow,
        list,
        log,
        nap,
        note,
        other,
        protocol,
        random,
        read,
        report,
        say,
        shout,
        steps,
        structured,
        stubborn,
        trap,
        unsupported,
        write,
    ],
    templates: [place],
}
