//! Limits of open connections, in all and per address (in IPv6 per /64).

use crate::metrics;
use ::metrics::Gauge;
use millrace_rows::network_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

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
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct OpenConnections {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Permit of one open connection; dropping it counts the connection out.
pub struct ConnectionPermit {
    connections: Arc<ConnectionLimiter>,
    /// `None` for a proxy, which speaks for many clients.
    address: Option<IpAddr>,
}

impl ConnectionLimiter {
    /// Returns a limiter without connections.
    pub fn new(total_max: usize, per_address_max: usize) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            total_max,
            per_address_max,
            gauge: metrics::connections(),
        })
    }

    /// Counts a connection in. `address` is `None` for a trusted proxy, which is not limited.
    ///
    /// # Errors
    /// The limit that was met.
    pub fn admit(
        self: &Arc<Self>,
        address: Option<IpAddr>,
    ) -> Result<ConnectionPermit, LimitReached> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.total >= self.total_max {
            metrics::connection_refused("process");
            return Err(LimitReached::Process);
        }
        let address = address.map(network_of);
        if let Some(address) = address {
            let of_address = open.by_address.entry(address).or_default();
            if *of_address >= self.per_address_max {
                metrics::connection_refused("address");
                return Err(LimitReached::Address);
            }
            *of_address += 1;
        }
        open.total += 1;
        self.gauge.increment(1.0);
        Ok(ConnectionPermit {
            connections: Arc::clone(self),
            address,
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let connections = &self.connections;
        let mut open = connections
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.total -= 1;
        connections.gauge.decrement(1.0);
        if let Some(address) = self.address
            && let Some(of_address) = open.by_address.get_mut(&address)
        {
            *of_address -= 1;
            if *of_address == 0 {
                open.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_hold_and_permits_come_back() {
        let connections = ConnectionLimiter::new(3, 2);
        let [one, two] = [1, 2].map(|n| Some(IpAddr::from([10, 0, 0, n])));
        let first = connections.admit(one).ok().unwrap();
        let _second = connections.admit(one).ok().unwrap();
        assert_eq!(connections.admit(one).err(), Some(LimitReached::Address));
        let _third = connections.admit(two).ok().unwrap();
        assert_eq!(connections.admit(two).err(), Some(LimitReached::Process));
        drop(first);
        let _fourth = connections.admit(None).ok().unwrap();
        assert_eq!(connections.admit(None).err(), Some(LimitReached::Process));
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
        assert!(connections.open.lock().unwrap().by_address.is_empty());
    }
}
