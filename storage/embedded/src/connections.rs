//! Limits on open connections: in total, and per address for those that have not authenticated. One
//! more evicts the oldest unauthenticated connection, so idle connections never lock out a client
//! with the password.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_rows::network_of;
use tokio::sync::Notify;

/// Most connections at once. Each takes at most 64 KiB, for the request's head, until its statement
/// runs.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// Most connections of one address that have not authenticated.
pub(crate) const UNAUTHENTICATED_MAX: usize = 64;

/// Registry of all connections, the oldest first.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<ConnectionList>>);

#[derive(Default)]
struct ConnectionList {
    entries: Vec<Entry>,
    next_id: u64,
}

struct Entry {
    id: u64,
    address: IpAddr,
    is_authenticated: bool,
    evict: Arc<Notify>,
}

/// Registration of a connection, removed when dropped.
pub(crate) struct ConnectionGuard {
    id: u64,
    address: IpAddr,
    connections: Connections,
    evict: Arc<Notify>,
}

// === impl Connections ===

impl Connections {
    /// Registers a connection; `None` when authenticated connections fill the limit.
    pub(crate) fn register(&self, address: IpAddr) -> Option<ConnectionGuard> {
        let address = network_of(address);
        let mut list = self.list();
        let unauthenticated = list
            .entries
            .iter()
            .filter(|it| !it.is_authenticated && it.address == address);
        if unauthenticated.count() >= UNAUTHENTICATED_MAX {
            list.evict_oldest(|it| !it.is_authenticated && it.address == address);
        }
        if list.entries.len() >= CONNECTIONS_MAX && !list.evict_oldest(|it| !it.is_authenticated) {
            return None;
        }
        let (id, evict) = (list.next_id, Arc::new(Notify::new()));
        list.next_id += 1;
        list.entries.push(Entry {
            id,
            address,
            is_authenticated: false,
            evict: Arc::clone(&evict),
        });
        drop(list);
        Some(ConnectionGuard {
            id,
            address,
            connections: self.clone(),
            evict,
        })
    }

    fn list(&self) -> MutexGuard<'_, ConnectionList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionList {
    /// Evicts the oldest of these; returns false if there is none.
    fn evict_oldest(&mut self, which: impl Fn(&Entry) -> bool) -> bool {
        let Some(index) = self.entries.iter().position(which) else {
            return false;
        };
        self.entries.remove(index).evict.notify_one();
        true
    }
}

// === impl ConnectionGuard ===

impl ConnectionGuard {
    /// Address that the client counts for; in IPv6 that of its network.
    pub(crate) const fn address(&self) -> IpAddr {
        self.address
    }

    /// Marks the connection as authenticated, which exempts it from eviction.
    pub(crate) fn mark_authenticated(&self) {
        let mut list = self.connections.list();
        if let Some(entry) = list.entries.iter_mut().find(|entry| entry.id == self.id) {
            entry.is_authenticated = true;
        }
    }

    /// Resolves when the connection is evicted for another one.
    pub(crate) async fn evicted(&self) {
        self.evict.notified().await;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections
            .list()
            .entries
            .retain(|entry| entry.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::net::Ipv4Addr;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn is_evicted(guard: &ConnectionGuard) -> bool {
        pin!(guard.evicted())
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[test]
    fn the_oldest_unauthenticated_connection_of_an_address_is_evicted_beyond_the_limit() {
        let connections = Connections::default();
        let other = connections.register(address(2)).unwrap();
        let mut all: Vec<_> = (0..UNAUTHENTICATED_MAX)
            .map(|_| connections.register(address(1)).unwrap())
            .collect();
        all[0].mark_authenticated();
        all.push(connections.register(address(1)).unwrap());
        assert!(
            all.iter().all(|guard| !is_evicted(guard)),
            "one of them signed in"
        );
        all.push(connections.register(address(1)).unwrap());
        let evicted: Vec<_> = (0..all.len())
            .filter(|index| is_evicted(&all[*index]))
            .collect();
        assert_eq!(evicted, [1], "the oldest that has not");
        assert!(!is_evicted(&other));
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let connections = Connections::default();
        let register = |text: &str| connections.register(text.parse().unwrap()).unwrap();
        let first = register("2001:db8::1");
        let mut all: Vec<_> = (1..UNAUTHENTICATED_MAX)
            .map(|index| register(&format!("2001:db8::{index:x}:0")))
            .collect();
        all.push(register("2001:db8:0:1::1"));
        assert!(!is_evicted(&first), "another network has places of its own");
        all.push(register("2001:db8::2"));
        assert!(is_evicted(&first));
        assert_eq!(first.address(), all[0].address(), "slots of statements");
    }

    #[test]
    fn authenticated_connections_are_never_evicted_and_can_fill_the_limit() {
        let connections = Connections::default();
        let register =
            |index: usize| connections.register(address(u8::try_from(index / 40).unwrap()));
        let mut all: Vec<_> = (0..CONNECTIONS_MAX)
            .map(|index| register(index).unwrap())
            .collect();
        all[1..]
            .iter()
            .for_each(ConnectionGuard::mark_authenticated);
        all.push(register(0).unwrap());
        assert!(is_evicted(&all[0]));
        all.last().unwrap().mark_authenticated();
        assert!(register(0).is_none());
        drop(all);
        assert!(register(0).is_some());
        assert!(connections.list().entries.is_empty());
    }
}
