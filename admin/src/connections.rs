//! Connections: how many an address may have.

use crate::request::origin::is_trusted;
use crate::request::throttle::network_of;
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections of one address at a time, or of one IPv6 network.
pub(crate) const CONNECTIONS_PER_ADDRESS_MAX: usize = 256;

/// Who has how many.
pub(crate) struct Connections {
    by_address: Mutex<HashMap<IpAddr, usize>>,
    /// They speak for many clients.
    trusted_proxies: Vec<IpNet>,
}

/// A connection's place; dropping it gives it back.
pub(crate) struct Place {
    connections: Arc<Connections>,
    /// `None` if it does not count.
    address: Option<IpAddr>,
}

impl Connections {
    pub(crate) fn new(trusted_proxies: Vec<IpNet>) -> Arc<Self> {
        Arc::new(Self {
            by_address: Mutex::new(HashMap::new()),
            trusted_proxies,
        })
    }

    /// A place for a connection from there; `None` if the address has its share already. This
    /// machine and trusted proxies have as many as they like.
    pub(crate) fn place(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
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
        Some(Place {
            connections: self.clone(),
            address,
        })
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
        let counts = self.by_address.lock();
        counts.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
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
    fn an_address_has_its_share_and_no_more() {
        let connections = Connections::new(vec!["10.0.0.0/8".parse().unwrap()]);
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
                .map(|_| connections.place(address).unwrap())
                .collect();
            assert_eq!(connections.place(address).is_some(), is_exempt, "{address}");
            held.pop();
            assert!(connections.place(address).is_some(), "{address}");
        }
        assert!(connections.counts().is_empty());
    }
}
