//! Hosts of a cluster that can be asked: the next one serves when one fails.
//!
//! Nothing is sent twice here. A statement that failed is its caller's to repeat, which for an
//! insert means to ask for it first, by the name of its token, on every host.

use crate::Settings;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Time between two warnings: while a shard is away all hosts fail, in turns.
const WARNING_SECONDS: u64 = 60;

/// Addresses of the hosts, of which one is asked at a time.
#[derive(Debug)]
pub(crate) struct Hosts {
    urls: Vec<String>,
    /// Counts up with every change; the remainder is the index of the host that is asked.
    turn: AtomicUsize,
    began: Instant,
    /// Seconds since the beginning from which on a change is warned of.
    next_warning: AtomicU64,
}

/// Host that a statement is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host<'a> {
    pub(crate) url: &'a str,
    turn: usize,
}

impl Hosts {
    pub(crate) fn of(settings: &Settings) -> Self {
        let first = std::iter::once(&settings.url);
        Self {
            urls: first.chain(&settings.other_urls).cloned().collect(),
            turn: AtomicUsize::new(0),
            began: Instant::now(),
            next_warning: AtomicU64::new(0),
        }
    }

    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Returns the host to ask now.
    pub(crate) fn current(&self) -> Host<'_> {
        let turn = self.turn.load(Ordering::Relaxed);
        let index = turn.checked_rem(self.urls.len()).unwrap_or_default();
        Host {
            url: self.urls.get(index).map_or("", String::as_str),
            turn,
        }
    }

    /// Turns to the next host, unless another caller did since `failed` was returned.
    pub(crate) fn leave(&self, failed: Host<'_>) {
        if self.urls.len() < 2 {
            return;
        }
        let next = failed.turn.wrapping_add(1);
        let changed =
            self.turn
                .compare_exchange(failed.turn, next, Ordering::Relaxed, Ordering::Relaxed);
        if changed.is_ok() && self.is_to_be_warned(self.began.elapsed().as_secs()) {
            tracing::warn!(
                failed = failed.url,
                next = self.current().url,
                "a host of ClickHouse fails; the next one is asked"
            );
        }
    }

    /// Returns true if no warning was given within the last minute, and this one is to be.
    fn is_to_be_warned(&self, now_seconds: u64) -> bool {
        let due = self.next_warning.load(Ordering::Relaxed);
        let next = now_seconds + WARNING_SECONDS;
        now_seconds >= due
            && self
                .next_warning
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(others: &[&str]) -> Hosts {
        Hosts::of(&Settings {
            other_urls: others.iter().map(|url| (*url).to_owned()).collect(),
            ..Settings::new("http://a", "u", "p")
        })
    }

    #[test]
    fn hosts_are_asked_in_turns_of_failures() {
        let hosts = hosts(&["http://b", "http://c"]);
        for expected in ["http://a", "http://b", "http://c", "http://a"] {
            let host = hosts.current();
            assert_eq!(host.url, expected);
            hosts.leave(host);
        }
    }

    #[test]
    fn hosts_that_fail_in_turns_are_warned_of_once_in_a_minute() {
        let hosts = hosts(&["http://b"]);
        let warned = [0, 1, 59, 60, 61, 130].map(|at| hosts.is_to_be_warned(at));
        assert_eq!(warned, [true, false, false, true, false, true]);
    }

    #[test]
    fn failures_of_one_host_turn_to_the_next_once() {
        let hosts = hosts(&["http://b", "http://c"]);
        let (one, other) = (hosts.current(), hosts.current());
        hosts.leave(one);
        hosts.leave(other);
        assert_eq!(hosts.current().url, "http://b");
    }

    #[test]
    fn one_server_is_never_left() {
        let hosts = hosts(&[]);
        hosts.leave(hosts.current());
        assert_eq!(hosts.current(), hosts.current());
        assert_eq!(hosts.current().url, "http://a");
    }
}
