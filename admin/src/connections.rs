//! Limit on open connections of each client address.

use crate::request::origin::is_trusted;
use ipnet::IpNet;
use millrace_rows::network_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Most open connections of one address, or of one IPv6 network.
pub(crate) const CONNECTIONS_PER_ADDRESS_MAX: usize = 256;

/// Counts open connections by client address.
pub(crate) struct ConnectionLimiter {
    by_address: Mutex<HashMap<IpAddr, usize>>,
    /// Exempt, as they speak for many clients.
    trusted_proxies: Vec<IpNet>,
}

/// Permit for one open connection, counted until it is dropped.
pub(crate) struct ConnectionPermit {
    connections: Arc<ConnectionLimiter>,
    /// Address that the connection counts for; `None` if it is exempt.
    address: Option<IpAddr>,
}

impl ConnectionLimiter {
    pub(crate) fn new(trusted_proxies: Vec<IpNet>) -> Arc<Self> {
        Arc::new(Self {
            by_address: Mutex::new(HashMap::new()),
            trusted_proxies,
        })
    }

    /// Takes a permit for a connection from an address; `None` if the address has the most it may
    /// have. Loopback addresses and trusted proxies are exempt.
    pub(crate) fn try_acquire(self: &Arc<Self>, from: IpAddr) -> Option<ConnectionPermit> {
        let from = from.to_canonical();
        let is_exempt = from.is_loopback() || is_trusted(&self.trusted_proxies, from);
        let address = (!is_exempt).then(|| network_of(from));
        if let Some(address) = address {
            let mut counts = self.counts();
            let count = counts.entry(address).or_default();
            if *count >= CONNECTIONS_PER_ADDRESS_MAX {
                return None;
            }
            *count += 1;
        }
        Some(ConnectionPermit {
            connections: self.clone(),
            address,
        })
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
        let counts = self.by_address.lock();
        counts.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut counts = self.connections.counts();
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_an_address_are_limited_unless_it_is_exempt() {
        let connections = ConnectionLimiter::new(vec!["10.0.0.0/8".parse().unwrap()]);
        let table = [
            ("192.0.2.1", false),
            ("::ffff:192.0.2.2", false),
            ("2001:db8::1", false),
            ("127.0.0.1", true),
            ("::1", true),
            ("10.0.0.1", true),
        ];
        for (address, is_exempt) in table {
            let address: IpAddr = address.parse().unwrap();
            let mut held: Vec<_> = (0..CONNECTIONS_PER_ADDRESS_MAX)
                .map(|_| connections.try_acquire(address).unwrap())
                .collect();
            assert_eq!(
                connections.try_acquire(address).is_some(),
                is_exempt,
                "{address}"
            );
            held.pop();
            assert!(connections.try_acquire(address).is_some(), "{address}");
        }
        assert!(connections.counts().is_empty());
    }
}
