//! How often callers may ask. A second's worth may come at once; after that requests have their places in time.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use governor::{
    DefaultDirectRateLimiter, DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

use super::access::Access;
use crate::{
    base::{Fault, Millis, Principal},
    config::{CallerLimits, HostLimits},
};

/// Requests after which callers who have not asked for a second are forgotten.
const FORGET_AFTER: u32 = 4096;

/// What a request costs the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// It starts a run, or goes on with one.
    Call,
    /// It reads or writes a task.
    Poll,
    /// Anything else.
    Other,
}

/// All rates.
pub(super) struct Rates {
    calls: Rate,
    polls: Rate,
    others: Rate,
    clock: DefaultClock,
    asked: AtomicU32,
}

/// The rate of one cost: of the host, and of each caller.
struct Rate {
    all: DefaultDirectRateLimiter,
    each: DefaultKeyedRateLimiter<Principal>,
    /// The options' names and values, for who comes too often.
    names: [&'static str; 2],
    limits: [u32; 2],
}

impl Rate {
    fn new(names: [&'static str; 2], limits: [u32; 2]) -> Self {
        // Zero is refused where the configuration is read.
        let [all, each] =
            limits.map(|limit| Quota::per_second(NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN)));
        Self { all: RateLimiter::direct(all), each: RateLimiter::keyed(each), names, limits }
    }
}

impl Rates {
    /// As configured.
    pub(super) fn new(host: &HostLimits, callers: &CallerLimits) -> Self {
        Self {
            calls: Rate::new(["host.calls", "callers.calls"], [host.calls, callers.calls]),
            polls: Rate::new(["host.polls", "callers.polls"], [host.polls, callers.polls]),
            others: Rate::new(["host.requests", "callers.requests"], [host.requests, callers.requests]),
            clock: DefaultClock::default(),
            asked: AtomicU32::new(0),
        }
    }

    /// Counts one request. A caller's own bound comes first: who is over it takes nothing of the others' share.
    ///
    /// # Errors
    /// `rate_limited`, with `data.limit`, `data.perSecond` and `data.retryAfterMs`.
    pub(super) fn check(&self, access: &Access, cost: Cost) -> Result<(), Fault> {
        let rate = match cost {
            Cost::Call => &self.calls,
            Cost::Poll => &self.polls,
            Cost::Other => &self.others,
        };
        if access.private {
            self.tidy();
            let early = |not: NotUntil<_>| {
                refused(not.wait_time_from(self.clock.now()), rate.names[1], rate.limits[1])
            };
            rate.each.check_key(&access.principal).map_err(early)?;
        }
        rate.all
            .check()
            .map_err(|not| refused(not.wait_time_from(self.clock.now()), rate.names[0], rate.limits[0]))
    }

    /// Forgets who has not asked for a while.
    fn tidy(&self) {
        if self.asked.fetch_add(1, Ordering::Relaxed) % FORGET_AFTER == FORGET_AFTER - 1 {
            for rate in [&self.calls, &self.polls, &self.others] {
                rate.each.retain_recent();
                rate.each.shrink_to_fit();
            }
        }
    }
}

fn refused(wait: Duration, name: &'static str, limit: u32) -> Fault {
    let wait = Millis::from(wait).0 + 1;
    let whose = if name.starts_with("callers.") { "You ask" } else { "This host is asked" };
    let text = format!("{whose} more often than {limit} times a second ({name}). Ask again in {wait} ms.");
    Fault::invalid("rate_limited", text)
        .with("limit", name.into())
        .with("perSecond", limit.into())
        .with("retryAfterMs", wait.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rates(host: u32, callers: u32) -> Rates {
        let host = HostLimits { calls: host, ..HostLimits::default() };
        Rates::new(&host, &CallerLimits { calls: callers, ..CallerLimits::default() })
    }

    fn taken(rates: &Rates, access: &Access, times: usize) -> usize {
        (0..times).filter(|_| rates.check(access, Cost::Call).is_ok()).count()
    }

    #[test]
    fn each_caller_has_a_second_at_once_and_none_takes_anothers() {
        let rates = rates(1000, 20);
        let [one, two] = ["one", "two"].map(|name| Access::proven(Principal::token(name), None));
        // What time gives back meanwhile may be one or two.
        assert!((20..40).contains(&taken(&rates, &one, 200)));
        let refused = rates.check(&one, Cost::Call).unwrap_err();
        assert_eq!((refused.code, &refused.data["limit"]), ("rate_limited", &"callers.calls".into()));
        assert!(refused.data["retryAfterMs"].as_u64().unwrap() <= 51, "{refused:?}");
        assert!(taken(&rates, &two, 20) >= 20);
        assert!(rates.check(&one, Cost::Poll).is_ok(), "other costs have other bounds");
        // Who is told apart from nobody has the host's bound alone.
        assert_eq!(taken(&rates, &Access::all(Principal::local()), 100), 100);
    }

    #[test]
    fn the_host_has_a_bound_of_its_own() {
        let rates = rates(10, 1000);
        let all = Access::all(Principal::local());
        assert!((10..30).contains(&taken(&rates, &all, 100)));
        assert_eq!(rates.check(&all, Cost::Call).unwrap_err().data["limit"], "host.calls");
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let rates = rates(u32::MAX, u32::MAX);
        for n in 0..2 * FORGET_AFTER {
            rates.check(&Access::proven(Principal::token(&n.to_string()), None), Cost::Call).unwrap();
        }
        assert!(rates.calls.each.len() <= FORGET_AFTER as usize, "{}", rates.calls.each.len());
    }
}
