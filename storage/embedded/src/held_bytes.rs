//! Budgets of memory: of responses that are held back, which keep their part until they are sent or
//! dropped, and of what requests need before the engine reads them.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that all responses together may hold back.
pub(crate) const HELD_BYTES_MAX: usize = 256 << 20;

/// Bytes that the texts and compressed blocks of all requests together may take, beside those of
/// ordinary size.
pub(crate) const REQUEST_BYTES_MAX: usize = 256 << 20;

/// Budget that responses share, or requests.
#[derive(Clone)]
pub(crate) struct HeldBytes(Arc<Semaphore>);

/// Part of the budget that one response or request has.
pub(crate) struct Reservation {
    budget: HeldBytes,
    permit: Option<OwnedSemaphorePermit>,
}

/// Bytes that give their part of the budget back when the last reference to them is dropped.
struct ReservedBytes {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

// === impl HeldBytes ===

impl HeldBytes {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes_max)))
    }

    /// Creates a reservation of nothing.
    pub(crate) fn reservation(&self) -> Reservation {
        Reservation {
            budget: self.clone(),
            permit: None,
        }
    }
}

// === impl Reservation ===

impl Reservation {
    /// Extends the reservation to this number of bytes; returns false if others leave too little.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let reserved = self.permit.as_ref();
        let reserved = reserved.map_or(0, OwnedSemaphorePermit::num_permits);
        let Ok(missing) = u32::try_from(bytes.saturating_sub(reserved)) else {
            return false;
        };
        let Ok(more) = Arc::clone(&self.budget.0).try_acquire_many_owned(missing) else {
            return false;
        };
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        true
    }

    /// Has the bytes keep the reservation.
    pub(crate) fn attach(self, bytes: Bytes) -> Bytes {
        match self.permit {
            Some(permit) => Bytes::from_owner(ReservedBytes {
                bytes,
                _permit: permit,
            }),
            None => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_lasts_as_long_as_any_part_of_its_bytes() {
        let budget = HeldBytes::new(100);
        let can_reserve = |bytes| budget.reservation().reserve(bytes);
        let mut reservation = budget.reservation();
        assert!(reservation.reserve(40) && reservation.reserve(60) && reservation.reserve(10));
        assert!(can_reserve(40) && !can_reserve(41));
        assert!(!reservation.reserve(101), "it has what it had");
        assert!(can_reserve(40) && !can_reserve(41));
        let mut bytes = reservation.attach(Bytes::from_static(b"held"));
        assert_eq!(bytes, "held");
        let part = bytes.split_to(2);
        drop(bytes);
        assert!(!can_reserve(41));
        drop(part);
        assert!(can_reserve(100));
    }
}
