//! Open connections of a process, and which of them give way to new ones.
//!
//! As in nginx, connections that wait for the head of a request do, silent ones and those between
//! requests: those of the network that holds most first, and of these the ones that have waited for
//! longest. Connections with a request stay, and so do those of trusted proxies, which speak for
//! many clients.

use super::head_wait::HeadWait;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most connections that are evicted at once: a search looks at all connections, and a flood of new
/// ones must not cause one for each.
const EVICTED_MAX: usize = 32;
/// Part of the waiting connections that is evicted at once, where that is less.
const EVICTED_PART: usize = 8;
/// Pause after a search that found no connection to evict, for the same reason.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// Registry of the connections.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    /// Number of connections, without those that were evicted.
    total: usize,
    /// Connections that are limited by network, by their ids.
    by_network: HashMap<IpAddr, BTreeMap<u64, Arc<HeadWait>>>,
    next_id: u64,
    /// Time of the last search that found no connection to evict.
    searched_in_vain: Option<Instant>,
}

// === impl OpenConnections ===

impl OpenConnections {
    /// Number of connections, without those that were evicted.
    pub(super) const fn total(&self) -> usize {
        self.total
    }

    /// Returns true if no network has a connection.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_network.is_empty()
    }

    /// Number of connections of a network.
    pub(super) fn held_by(&self, network: IpAddr) -> usize {
        self.by_network.get(&network).map_or(0, BTreeMap::len)
    }

    /// Adds a connection and returns its id.
    pub(super) fn add(&mut self, network: Option<IpAddr>, head_wait: &Arc<HeadWait>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.total += 1;
        if let Some(network) = network {
            let held = self.by_network.entry(network).or_default();
            held.insert(id, Arc::clone(head_wait));
        }
        id
    }

    /// Removes a connection; returns false if it was evicted before.
    pub(super) fn remove(&mut self, network: Option<IpAddr>, id: u64) -> bool {
        let is_counted = network.is_none_or(|network| self.take(network, id).is_some());
        self.total -= usize::from(is_counted);
        is_counted
    }

    /// Takes a connection from those of its network.
    fn take(&mut self, network: IpAddr, id: u64) -> Option<Arc<HeadWait>> {
        let held = self.by_network.get_mut(&network)?;
        let head_wait = held.remove(&id)?;
        if held.is_empty() {
            self.by_network.remove(&network);
        }
        Some(head_wait)
    }

    /// Evicts some of the connections that wait for a head, and returns their number.
    pub(super) fn evict(&mut self) -> usize {
        let searched = self.searched_in_vain;
        if searched.is_some_and(|searched| searched.elapsed() < SEARCH_PAUSE) {
            return 0;
        }
        let mut waiting = Vec::new();
        for (network, held) in &self.by_network {
            let of_network = held.iter().filter_map(|(id, head_wait)| {
                Some((Reverse(held.len()), head_wait.since()?, *network, *id))
            });
            waiting.extend(of_network);
        }
        waiting.sort_unstable();
        waiting.truncate((waiting.len() / EVICTED_PART).clamp(1, EVICTED_MAX));
        for (_, _, network, id) in &waiting {
            if let Some(head_wait) = self.take(*network, *id) {
                self.total -= 1;
                head_wait.evict();
            }
        }
        self.searched_in_vain = waiting.is_empty().then(Instant::now);
        waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Adds a connection of a network that has waited since a time.
    fn added(open: &mut OpenConnections, last: u8, since: u64) -> Arc<HeadWait> {
        let head_wait = Arc::new(HeadWait::new(Instant::now()));
        head_wait.set_since(since);
        open.add(Some(IpAddr::from([10, 0, 0, last])), &head_wait);
        head_wait
    }

    fn is_evicted(head_wait: &Arc<HeadWait>) -> bool {
        head_wait.begin(Waker::noop())
    }

    #[test]
    fn the_longest_wait_of_the_network_that_holds_most_gives_way() {
        let mut open = OpenConnections::default();
        let table = [
            ("waits longest, alone", 1, Some(1), false),
            ("has a request", 2, None, false),
            ("waits", 2, Some(4), false),
            ("waits longest, of three", 2, Some(2), true),
        ];
        let proxied = Arc::new(HeadWait::new(Instant::now()));
        open.add(None, &proxied);
        let held = table.map(|(_, last, since, _)| added(&mut open, last, since.unwrap_or(0)));
        assert_eq!((open.evict(), open.total()), (1, 4));
        for ((what, _, _, expected), head_wait) in table.iter().zip(&held) {
            assert_eq!(is_evicted(head_wait), *expected, "{what}");
        }
        assert!(!is_evicted(&proxied));
    }

    #[test]
    fn at_most_an_eighth_of_the_waiting_and_32_give_way_at_once() {
        for (connections, expected) in [(0, 0), (1, 1), (4, 1), (64, 8), (400, 32)] {
            let mut open = OpenConnections::default();
            let held: Vec<_> = (0..connections).map(|_| added(&mut open, 1, 1)).collect();
            assert_eq!(open.evict(), expected, "{connections}");
            let evicted = held.iter().filter(|head_wait| is_evicted(head_wait));
            assert_eq!(evicted.count(), expected, "{connections}");
            assert_eq!(open.total(), connections - expected);
        }
    }

    #[test]
    fn after_a_search_in_vain_there_is_none_for_a_while() {
        let mut open = OpenConnections::default();
        let head_wait = added(&mut open, 1, 0);
        assert_eq!(open.evict(), 0);
        head_wait.set_since(1);
        assert_eq!(open.evict(), 0, "too soon");
        open.searched_in_vain = Instant::now().checked_sub(SEARCH_PAUSE);
        assert_eq!(open.evict(), 1);
    }
}
