//! Hosts of a cluster that can be asked: another one serves when one fails.
//!
//! Nothing is sent twice here. A statement that failed is its caller's to repeat, which for an
//! insert means to ask for it first, by the name of its token, on every host.

use crate::Settings;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::OnceCell;

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
    /// Definition of the cluster that the hosts share, once they were compared.
    pub(crate) definition: OnceCell<Definition>,
}

/// Definition of the cluster by one of its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Shards and replicas with their weights and addresses, in their order.
    pub(crate) text: String,
    pub(crate) hosts: u64,
    pub(crate) shards: u64,
}

/// Host that a statement is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
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
            definition: OnceCell::new(),
        }
    }

    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Returns the host to ask now.
    pub(crate) fn current(&self) -> Host {
        Host {
            turn: self.turn.load(Ordering::Relaxed),
        }
    }

    /// Returns the address of a host.
    pub(crate) fn url(&self, host: Host) -> &str {
        let index = host.turn.checked_rem(self.urls.len()).unwrap_or_default();
        self.urls.get(index).map_or("", String::as_str)
    }

    /// Lists the other hosts, in the order in which they are asked after this one.
    pub(crate) fn others(&self, host: Host) -> impl Iterator<Item = Host> {
        (1..self.urls.len()).map(move |steps| Host {
            turn: host.turn.wrapping_add(steps),
        })
    }

    /// Turns to another host, unless another caller did since `failed` was returned.
    pub(crate) fn turn_to(&self, failed: Host, next: Host) {
        let changed = self.turn.compare_exchange(
            failed.turn,
            next.turn,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if changed.is_ok() && self.is_to_be_warned() {
            tracing::warn!(
                failed = self.url(failed),
                next = self.url(next),
                "a host of ClickHouse fails; another one is asked"
            );
        }
    }

    /// Returns true if a warning of a host is to be given now.
    pub(crate) fn is_to_be_warned(&self) -> bool {
        self.is_to_be_warned_at(self.began.elapsed().as_secs())
    }

    /// Returns true if no warning was given within the last minute, and this one is to be.
    fn is_to_be_warned_at(&self, now_seconds: u64) -> bool {
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

    /// Turns to the next host.
    fn leave(hosts: &Hosts, failed: Host) {
        if let Some(next) = hosts.others(failed).next() {
            hosts.turn_to(failed, next);
        }
    }

    #[test]
    fn hosts_are_asked_in_turns_of_failures() {
        let hosts = hosts(&["http://b", "http://c"]);
        for expected in ["http://a", "http://b", "http://c", "http://a"] {
            let host = hosts.current();
            assert_eq!(hosts.url(host), expected);
            leave(&hosts, host);
        }
        let others = hosts.others(hosts.current()).map(|host| hosts.url(host));
        assert_eq!(others.collect::<Vec<_>>(), ["http://c", "http://a"]);
    }

    #[test]
    fn hosts_that_fail_in_turns_are_warned_of_once_in_a_minute() {
        let hosts = hosts(&["http://b"]);
        let warned = [0, 1, 59, 60, 61, 130].map(|at| hosts.is_to_be_warned_at(at));
        assert_eq!(warned, [true, false, false, true, false, true]);
    }

    #[test]
    fn failures_of_one_host_turn_to_the_next_once() {
        let hosts = hosts(&["http://b", "http://c"]);
        let (one, other) = (hosts.current(), hosts.current());
        leave(&hosts, one);
        leave(&hosts, other);
        assert_eq!(hosts.url(hosts.current()), "http://b");
    }

    #[test]
    fn one_server_is_never_left() {
        let hosts = hosts(&[]);
        leave(&hosts, hosts.current());
        assert_eq!(hosts.url(hosts.current()), "http://a");
        assert_eq!(hosts.others(hosts.current()).count(), 0);
    }
}
