//! Hosts of a cluster that can be asked: the next one serves when one fails.
//!
//! Nothing is sent twice here. A statement that failed is its caller's to repeat, which for an
//! insert means to ask for it first, by the name of its token, on every host.

use crate::Settings;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Addresses of the hosts, of which one is asked at a time.
#[derive(Debug)]
pub(crate) struct Hosts {
    urls: Vec<String>,
    /// Counts up with every change; the remainder is the index of the host that is asked.
    turn: AtomicUsize,
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
        if changed.is_ok() {
            tracing::warn!(
                failed = failed.url,
                next = self.current().url,
                "a host of ClickHouse fails; the next one is asked"
            );
        }
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
