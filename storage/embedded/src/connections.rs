//! Places of connections: a bound on all of them, and one on those of an address that wait.
//!
//! A connection waits until it has logged in, while no request of it is under way. One more than a
//! bound permits takes the place of the oldest that waits, be it new or at the end of its request.
//! So whoever opens connections and sends nothing, or nothing of use, keeps nobody out.

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_rows::network_of;
use tokio::sync::Notify;

/// Registry of connections, the oldest first.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Registry>);

struct Registry {
    /// Connections at once.
    max: usize,
    /// Connections of one address that wait.
    waiting_max: usize,
    entries: Mutex<Vec<Arc<Entry>>>,
}

#[derive(Debug)]
struct Entry {
    network: IpAddr,
    has_logged_in: AtomicBool,
    is_busy: AtomicBool,
    evict: Notify,
}

/// Place of one connection, given back when dropped.
pub(crate) struct Place {
    entry: Arc<Entry>,
    connections: Connections,
}

// === impl Connections ===

impl Connections {
    /// Registry with these bounds.
    pub(crate) fn new(max: usize, waiting_max: usize) -> Self {
        Self(Arc::new(Registry {
            max,
            waiting_max,
            entries: Mutex::new(Vec::new()),
        }))
    }

    /// Registers a connection; `None` when none of the others gives way.
    pub(crate) fn register(&self, address: IpAddr) -> Option<Place> {
        let entry = Arc::new(Entry {
            network: network_of(address),
            has_logged_in: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
            evict: Notify::new(),
        });
        let mut entries = self.entries();
        self.make_room(&mut entries, &entry);
        // Those that are idle lose least, and a request of a stranger may be a slow body.
        let has_place = entries.len() < self.0.max
            || evict_oldest(&mut entries, Entry::waits)
            || evict_oldest(&mut entries, |entry| !entry.is_busy.load(Relaxed))
            || evict_oldest(&mut entries, |entry| !entry.has_logged_in.load(Relaxed));
        if !has_place {
            return None;
        }
        entries.push(Arc::clone(&entry));
        drop(entries);
        Some(Place {
            entry,
            connections: self.clone(),
        })
    }

    /// Evicts the oldest others of an address that wait, as far as there are too many beside this
    /// one.
    fn make_room(&self, entries: &mut Vec<Arc<Entry>>, newest: &Entry) {
        let waits_there = |entry: &Entry| {
            entry.network == newest.network && entry.waits() && !std::ptr::eq(entry, newest)
        };
        let waiting = entries.iter().filter(|entry| waits_there(entry)).count();
        for _ in self.0.waiting_max..=waiting {
            evict_oldest(entries, waits_there);
        }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        let entries = &self.0.entries;
        entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Evicts the oldest of these; returns false if there is none.
fn evict_oldest(entries: &mut Vec<Arc<Entry>>, which: impl Fn(&Entry) -> bool) -> bool {
    let Some(index) = entries.iter().position(|entry| which(entry)) else {
        return false;
    };
    entries.remove(index).evict.notify_one();
    true
}

// === impl Entry ===

impl Entry {
    fn waits(&self) -> bool {
        !self.has_logged_in.load(Relaxed) && !self.is_busy.load(Relaxed)
    }
}

// === impl Place ===

impl Place {
    /// Notes that a password was accepted.
    pub(crate) fn set_logged_in(&self) {
        self.entry.has_logged_in.store(true, Relaxed);
    }

    /// Notes that a request is under way, or none any more.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.entry.is_busy.store(is_busy, Relaxed);
        if self.entry.waits() {
            let connections = &self.connections;
            connections.make_room(&mut connections.entries(), &self.entry);
        }
    }

    /// Returns true while a request is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.entry.is_busy.load(Relaxed)
    }

    /// Resolves when the place is another connection's.
    pub(crate) async fn evicted(&self) {
        self.entry.evict.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut entries = self.connections.entries();
        entries.retain(|entry| !Arc::ptr_eq(entry, &self.entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::pin::pin;
    use std::task::{Context, Waker};

    const MAX: usize = 6;
    const WAITING_MAX: usize = 3;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn is_evicted(place: &Place) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(place.evicted()).poll(&mut context).is_ready()
    }

    fn evicted(places: &[Place]) -> Vec<usize> {
        let all = 0..places.len();
        all.filter(|index| is_evicted(&places[*index])).collect()
    }

    #[test]
    fn the_oldest_that_waits_of_an_address_gives_way_to_one_more() {
        let connections = Connections::new(100, WAITING_MAX);
        let register = |last| connections.register(address(last)).unwrap();
        let other = register(2);
        let mut places: Vec<_> = (0..WAITING_MAX + 2)
            .map(|index| {
                let place = register(1);
                match index {
                    0 => place.set_logged_in(),
                    1 => place.set_busy(true),
                    _ => {}
                }
                place
            })
            .collect();
        assert_eq!(evicted(&places), [0_usize; 0], "two of them do not wait");
        places.push(register(1));
        assert_eq!(evicted(&places), [2]);
        assert!(!is_evicted(&other));
    }

    #[test]
    fn those_that_wait_after_a_request_are_bounded_too() {
        let connections = Connections::new(100, WAITING_MAX);
        let register = |last| connections.register(address(last)).unwrap();
        let other = register(2);
        let places: Vec<_> = (0..WAITING_MAX + 2)
            .map(|_| {
                let place = register(1);
                place.set_busy(true);
                place
            })
            .collect();
        assert_eq!(evicted(&places), [0_usize; 0], "none of them waits");
        for place in places.iter().rev() {
            place.set_busy(false);
        }
        assert_eq!(evicted(&places), [1, 2], "the oldest that waited by then");
        assert!(!is_evicted(&other));
    }

    #[test]
    fn those_that_wait_give_way_first_and_busy_ones_with_a_login_never() {
        let connections = Connections::new(MAX, MAX);
        let register = |last| connections.register(address(last));
        let states = [
            (true, true),
            (true, false),
            (false, true),
            (false, false),
            (true, true),
            (true, true),
        ];
        let mut places = Vec::new();
        for (last, (has_logged_in, is_busy)) in (1..).zip(states) {
            let place = register(last).unwrap();
            if has_logged_in {
                place.set_logged_in();
            }
            place.set_busy(is_busy);
            places.push(place);
        }
        for expected in [3, 1, 2] {
            let place = register(9).unwrap();
            place.set_logged_in();
            place.set_busy(true);
            assert_eq!(evicted(&places), [expected]);
            places.push(place);
        }
        assert!(register(9).is_none());
        drop(places);
        assert!(register(9).is_some());
        assert!(connections.entries().is_empty());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let connections = Connections::new(100, 1);
        let register = |text: &str| connections.register(text.parse().unwrap()).unwrap();
        let first = register("2001:db8::1");
        let other = register("2001:db8:0:1::1");
        assert!(!is_evicted(&first));
        let _second = register("2001:db8::2");
        assert!(is_evicted(&first) && !is_evicted(&other));
    }
}
