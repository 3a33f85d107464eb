//! Connections that are open: so many at once, and of those who have not said who they are, so many of one address. One more ends
//! the oldest of them, so that nobody who keeps connections open keeps out who has the password.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections at once. Each takes a head's 64 KiB at the most, until its statement runs.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// Connections of one address that have not signed in.
pub(crate) const STRANGERS_MAX: usize = 64;

/// All connections, the oldest first.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<List>>);

#[derive(Default)]
struct List {
    guests: Vec<Entry>,
    next_id: u64,
}

struct Entry {
    id: u64,
    address: IpAddr,
    is_known: bool,
    end: Arc<Notify>,
}

/// A connection's place, until it is dropped.
pub(crate) struct Guest {
    id: u64,
    connections: Connections,
    end: Arc<Notify>,
}

// === impl Connections ===

impl Connections {
    /// A place for one more; `None` when all are taken by those who have signed in.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<Guest> {
        // What comes by IPv4 to a listener of both kinds is one address all the same.
        let address = address.to_canonical();
        let mut list = self.list();
        let strangers = list
            .guests
            .iter()
            .filter(|it| !it.is_known && it.address == address);
        if strangers.count() >= STRANGERS_MAX {
            list.end_oldest(|it| !it.is_known && it.address == address);
        }
        if list.guests.len() >= CONNECTIONS_MAX && !list.end_oldest(|it| !it.is_known) {
            return None;
        }
        let (id, end) = (list.next_id, Arc::new(Notify::new()));
        list.next_id += 1;
        list.guests.push(Entry {
            id,
            address,
            is_known: false,
            end: Arc::clone(&end),
        });
        drop(list);
        Some(Guest {
            id,
            connections: self.clone(),
            end,
        })
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    /// Ends the oldest of these; false if there is none.
    fn end_oldest(&mut self, which: impl Fn(&Entry) -> bool) -> bool {
        let Some(place) = self.guests.iter().position(which) else {
            return false;
        };
        self.guests.remove(place).end.notify_one();
        true
    }
}

// === impl Guest ===

impl Guest {
    /// Notes that it gave the right name and password.
    pub(crate) fn signed_in(&self) {
        let mut list = self.connections.list();
        if let Some(entry) = list.guests.iter_mut().find(|entry| entry.id == self.id) {
            entry.is_known = true;
        }
    }

    /// Resolves when somebody else is given its place.
    pub(crate) async fn ended(&self) {
        self.end.notified().await;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.connections
            .list()
            .guests
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

    fn is_ended(guest: &Guest) -> bool {
        pin!(guest.ended())
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[test]
    fn a_stranger_too_many_ends_the_oldest_of_its_address() {
        let connections = Connections::default();
        let other = connections.enter(address(2)).unwrap();
        let mut all: Vec<_> = (0..STRANGERS_MAX)
            .map(|_| connections.enter(address(1)).unwrap())
            .collect();
        all[0].signed_in();
        all.push(connections.enter(address(1)).unwrap());
        assert!(
            all.iter().all(|guest| !is_ended(guest)),
            "one of them signed in"
        );
        all.push(connections.enter(address(1)).unwrap());
        let ended: Vec<_> = (0..all.len())
            .filter(|place| is_ended(&all[*place]))
            .collect();
        assert_eq!(ended, [1], "the oldest that has not");
        assert!(!is_ended(&other));
    }

    #[test]
    fn who_has_signed_in_is_never_ended_and_a_full_house_takes_nobody() {
        let connections = Connections::default();
        let enter = |place: usize| connections.enter(address(u8::try_from(place / 40).unwrap()));
        let mut all: Vec<_> = (0..CONNECTIONS_MAX)
            .map(|place| enter(place).unwrap())
            .collect();
        all[1..].iter().for_each(Guest::signed_in);
        all.push(enter(0).unwrap());
        assert!(is_ended(&all[0]));
        all.last().unwrap().signed_in();
        assert!(enter(0).is_none());
        drop(all);
        assert!(enter(0).is_some());
        assert!(connections.list().guests.is_empty());
    }
}
