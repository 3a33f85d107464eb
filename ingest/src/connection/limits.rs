//! Limits of open connections, in all and per address (in IPv6 per /64).
//!
//! At the limit of all, connections that wait for the head of a request give way to new ones
//! (`open_connections`), so nobody keeps others out by connections that do nothing.

use super::head_wait::HeadWait;
use super::open_connections::OpenConnections;
use crate::metrics;
use ::metrics::Gauge;
use millrace_rows::network_of;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Limit that a connection met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// Connections of the process.
    Process,
    /// Connections of one address.
    Address,
}

/// Open connections of all cores, and their limits.
pub struct ConnectionLimiter {
    open: Mutex<OpenConnections>,
    total_max: usize,
    per_address_max: usize,
    /// Time that all waits count from.
    origin: Instant,
    gauge: Gauge,
}

/// Permit of one open connection; dropping it counts the connection out.
pub struct ConnectionPermit {
    connections: Arc<ConnectionLimiter>,
    id: u64,
    /// `None` for a proxy, which speaks for many clients.
    network: Option<IpAddr>,
    head_wait: Arc<HeadWait>,
}

// === impl ConnectionLimiter ===

impl ConnectionLimiter {
    /// Returns a limiter without connections.
    pub fn new(total_max: usize, per_address_max: usize) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            total_max,
            per_address_max,
            origin: Instant::now(),
            gauge: metrics::connections(),
        })
    }

    /// Counts a connection in, if need be in the place of others that wait for a head. `address` is
    /// `None` for a trusted proxy, which is not limited.
    ///
    /// # Errors
    /// The limit that was met.
    pub fn admit(
        self: &Arc<Self>,
        address: Option<IpAddr>,
    ) -> Result<ConnectionPermit, LimitReached> {
        let network = address.map(network_of);
        let mut open = self.open();
        if network.is_some_and(|network| open.held_by(network) >= self.per_address_max) {
            metrics::connection_refused("address");
            return Err(LimitReached::Address);
        }
        if open.total() >= self.total_max {
            let evicted = open.evict();
            if evicted == 0 {
                metrics::connection_refused("process");
                return Err(LimitReached::Process);
            }
            metrics::connections_evicted(evicted);
            self.gauge.decrement(evicted as f64);
        }
        let head_wait = Arc::new(HeadWait::new(self.origin));
        let id = open.add(network, &head_wait);
        self.gauge.increment(1.0);
        Ok(ConnectionPermit {
            connections: Arc::clone(self),
            id,
            network,
            head_wait,
        })
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ConnectionPermit ===

impl ConnectionPermit {
    /// Wait of the connection for a head, by which it is evicted.
    pub fn head_wait(&self) -> Arc<HeadWait> {
        Arc::clone(&self.head_wait)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        if open.remove(self.network, self.id) {
            self.connections.gauge.decrement(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    /// Takes a permit for a connection that has a request.
    fn busy(
        connections: &Arc<ConnectionLimiter>,
        address: Option<IpAddr>,
    ) -> Result<ConnectionPermit, LimitReached> {
        let permit = connections.admit(address)?;
        permit.head_wait.end();
        Ok(permit)
    }

    fn is_evicted(permit: &ConnectionPermit) -> bool {
        permit.head_wait.begin(Waker::noop())
    }

    #[test]
    fn both_limits_hold_and_permits_come_back() {
        let connections = ConnectionLimiter::new(3, 2);
        let first = busy(&connections, address(1)).ok().unwrap();
        let _second = busy(&connections, address(1)).ok().unwrap();
        let of_one = busy(&connections, address(1)).err();
        assert_eq!(of_one, Some(LimitReached::Address));
        let _third = busy(&connections, address(2)).ok().unwrap();
        let of_all = busy(&connections, address(2)).err();
        assert_eq!(of_all, Some(LimitReached::Process));
        drop(first);
        let _fourth = busy(&connections, None).ok().unwrap();
        let of_all = busy(&connections, None).err();
        assert_eq!(of_all, Some(LimitReached::Process));
    }

    #[test]
    fn a_connection_beyond_the_limit_of_its_address_takes_no_place_of_others() {
        let connections = ConnectionLimiter::new(3, 2);
        let admit = |last| connections.admit(address(last));
        let held = [1, 1, 2].map(|last| admit(last).ok().unwrap());
        assert_eq!(admit(1).err(), Some(LimitReached::Address));
        let evicted = held.iter().filter(|permit| is_evicted(permit)).count();
        assert_eq!(evicted, 0);
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let connections = ConnectionLimiter::new(10, 2);
        let admit = |text: &str| connections.admit(Some(text.parse().unwrap()));
        let mut held = Vec::new();
        let table = [
            ("2001:db8::1", true),
            ("2001:db8::2", true),
            ("2001:db8::3", false),
            ("2001:db8:0:1::1", true),
            ("10.0.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("10.0.0.1", false),
            ("10.0.0.2", true),
        ];
        for (address, is_admitted) in table {
            let outcome = admit(address);
            let expected = (!is_admitted).then_some(LimitReached::Address);
            assert_eq!(outcome.as_ref().err().copied(), expected, "{address}");
            held.extend(outcome);
        }
    }

    #[test]
    fn an_address_without_connections_is_forgotten() {
        let connections = ConnectionLimiter::new(10, 2);
        for n in 0..=255 {
            drop(connections.admit(Some(IpAddr::from([10, 0, 0, n]))));
        }
        assert!(connections.open().is_empty());
    }
}
