//! Slots of statements, of which one client address has half while others wait.
//!
//! An address may hold all slots while nobody else wants one. Once others wait, they are served
//! first, and a statement of an address that has more than its half is given up when its client
//! keeps it waiting (`response_body`, `upload`). Otherwise clients that read or send slowly would
//! hold all slots for as long as they do so at all.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Most statements at once; each has a thread. More wait.
pub(crate) const STATEMENTS_MAX: usize = 100;
/// Slots that one address has while others wait.
const SHARE: usize = STATEMENTS_MAX / 2;
/// Time for which a client may keep a statement waiting whose slot others want.
pub(crate) const KEPT_WAITING_MAX: Duration = Duration::from_secs(5);
/// Longest wait for a slot.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// All slots, and the requests that wait for one.
#[derive(Clone, Default)]
pub(crate) struct StatementSlots(Arc<Shared>);

#[derive(Default)]
struct Shared {
    table: Mutex<SlotTable>,
    /// Notified when a slot is released, and when a request no longer waits.
    changed: Notify,
}

#[derive(Default)]
struct SlotTable {
    /// Number of slots that are taken, those that are given up among them.
    taken: usize,
    /// Number of slots by address, without those that are given up.
    held: HashMap<IpAddr, usize>,
    /// Addresses of the requests that wait, the first one first.
    waiting: BTreeMap<u64, IpAddr>,
    next_id: u64,
}

/// Slot of one statement, released when dropped.
pub(crate) struct StatementSlot {
    slots: StatementSlots,
    address: IpAddr,
    /// True if the address no longer counts it as its own.
    is_given_up: AtomicBool,
}

/// Request that waits for a slot, until dropped.
struct Waiting<'a> {
    slots: &'a StatementSlots,
    id: u64,
}

// === impl StatementSlots ===

impl StatementSlots {
    /// Takes a slot for a client's statement; `None` if there is none for half a minute.
    pub(crate) async fn acquire(&self, address: IpAddr) -> Option<StatementSlot> {
        let waiting = self.wait(address);
        let taken = timeout(WAIT_MAX, async {
            loop {
                // Created before the table is looked at, so that no change in between is missed.
                let changed = self.0.changed.notified();
                if self.table().take(waiting.id) {
                    return;
                }
                changed.await;
            }
        });
        taken.await.ok().map(|()| StatementSlot {
            slots: self.clone(),
            address,
            is_given_up: AtomicBool::new(false),
        })
    }

    fn wait(&self, address: IpAddr) -> Waiting<'_> {
        let mut table = self.table();
        let id = table.next_id;
        table.next_id += 1;
        table.waiting.insert(id, address);
        Waiting { slots: self, id }
    }

    fn table(&self) -> MutexGuard<'_, SlotTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl SlotTable ===

impl SlotTable {
    /// Takes a slot for a request that waits; returns false if there is none, or another is first.
    fn take(&mut self, id: u64) -> bool {
        if self.taken >= STATEMENTS_MAX || self.first() != Some(id) {
            return false;
        }
        if let Some(address) = self.waiting.remove(&id) {
            self.taken += 1;
            *self.held.entry(address).or_default() += 1;
        }
        true
    }

    /// Request that gets the next slot: the first whose address has less than its half, or else the
    /// first of all.
    fn first(&self) -> Option<u64> {
        let mut waiting = self.waiting.iter();
        let below_share = waiting.find(|(_, address)| self.held_by(**address) < SHARE);
        below_share
            .or_else(|| self.waiting.first_key_value())
            .map(|(id, _)| *id)
    }

    fn held_by(&self, address: IpAddr) -> usize {
        self.held.get(&address).copied().unwrap_or_default()
    }

    /// Returns true if an address has more than its half, and others wait that have less.
    fn has_too_many(&self, address: IpAddr) -> bool {
        let is_other = |other: &IpAddr| *other != address && self.held_by(*other) < SHARE;
        self.held_by(address) > SHARE && self.waiting.values().any(is_other)
    }

    /// Counts one slot less for an address.
    fn discount(&mut self, address: IpAddr) {
        let left = self.held_by(address).saturating_sub(1);
        match left {
            0 => self.held.remove(&address),
            _ => self.held.insert(address, left),
        };
    }
}

// === impl StatementSlot ===

impl StatementSlot {
    /// Gives the slot up if its address has more than its half and others wait; returns true if so.
    /// The statement must end then, and releases the slot.
    pub(crate) fn give_up(&self) -> bool {
        let mut table = self.slots.table();
        let is_given_up = self.is_given_up.load(Relaxed);
        let must_end = is_given_up || table.has_too_many(self.address);
        if must_end && !is_given_up {
            self.is_given_up.store(true, Relaxed);
            table.discount(self.address);
        }
        must_end
    }
}

impl Drop for StatementSlot {
    fn drop(&mut self) {
        let mut table = self.slots.table();
        table.taken = table.taken.saturating_sub(1);
        if !self.is_given_up.load(Relaxed) {
            table.discount(self.address);
        }
        drop(table);
        self.slots.0.changed.notify_waiters();
    }
}

// === impl Waiting ===

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.slots.table().waiting.remove(&self.id);
        // Another is the first now, and there may be a slot for it.
        self.slots.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    /// Returns the output of a future that is ready.
    fn ready<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// All slots, held by one address.
    async fn full(slots: &StatementSlots) -> Vec<StatementSlot> {
        let mut held = Vec::new();
        for _ in 0..STATEMENTS_MAX {
            held.push(slots.acquire(address(1)).await.unwrap());
        }
        held
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_all_slots_alone_and_is_served_after_others_that_wait() {
        let slots = StatementSlots::default();
        let mut held = full(&slots).await;
        let mut own = pin!(slots.acquire(address(1)));
        let mut other = pin!(slots.acquire(address(2)));
        assert!(ready(own.as_mut()).is_none() && ready(other.as_mut()).is_none());
        held.pop();
        assert!(ready(own.as_mut()).is_none(), "another waits");
        let others = ready(other.as_mut()).unwrap();
        assert!(others.is_some());
        held.pop();
        assert!(ready(own.as_mut()).unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn slots_beyond_half_are_given_up_while_others_wait() {
        let slots = StatementSlots::default();
        let mut held = full(&slots).await;
        let given_up = |held: &[StatementSlot]| held.iter().filter(|slot| slot.give_up()).count();
        {
            let mut own = pin!(slots.acquire(address(1)));
            assert!(ready(own.as_mut()).is_none());
            assert_eq!(given_up(&held), 0, "nobody else waits");
            let mut other = pin!(slots.acquire(address(2)));
            assert!(ready(other.as_mut()).is_none());
        }
        assert_eq!(given_up(&held), 0, "nobody waits any more");
        let mut other = pin!(slots.acquire(address(2)));
        assert!(ready(other.as_mut()).is_none());
        assert_eq!(given_up(&held), STATEMENTS_MAX - SHARE);
        assert_eq!(
            given_up(&held),
            STATEMENTS_MAX - SHARE,
            "no more than these"
        );
        assert!(
            ready(other.as_mut()).is_none(),
            "their statements run still"
        );
        held.remove(0);
        assert!(ready(other.as_mut()).unwrap().is_some());
        held.clear();
        let table = slots.table();
        assert!(table.taken == 0 && table.held.is_empty() && table.waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_without_a_slot() {
        let slots = StatementSlots::default();
        let held = full(&slots).await;
        assert!(slots.acquire(address(2)).await.is_none());
        drop(held);
        assert!(slots.acquire(address(2)).await.is_some());
        let table = slots.table();
        assert!(table.taken == 0 && table.held.is_empty() && table.waiting.is_empty());
    }
}
