//! Quotas of mails in flight and of mails in an hour.
//!
//! An organization that writes to many strangers, or to servers that refuse its mails, must leave
//! capacity for the others. Invitations and notices to members count apart, so that neither takes
//! the other's capacity.
//!
//! Organizations cost nothing to create, so invitations also count for their sender, over all
//! organizations, and for their recipient, whoever sends them, so that no mailbox is flooded.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Limits on invitations of an organization.
pub(super) const INVITATIONS: MailLimits = MailLimits {
    in_flight_max: 100,
    per_hour_max: 500,
};
/// Limits on invitations that one user sends, for all organizations.
pub(super) const INVITATIONS_BY_USER: MailLimits = INVITATIONS;
/// Limits on invitations to one address, whoever sends them: enough for some organizations, and
/// for sending each again if it was lost.
pub(super) const INVITATIONS_TO_ADDRESS: MailLimits = MailLimits {
    in_flight_max: 10,
    per_hour_max: 10,
};
/// Limits on notices; one counts once, however many members it goes to.
pub(super) const NOTICES: MailLimits = MailLimits {
    in_flight_max: 10,
    per_hour_max: 100,
};
const HOUR: Duration = Duration::from_secs(3_600);
/// Tolerance for rounding, less than one mail.
const ROUNDING: f64 = 1e-6;
/// Time after which to retry if too many mails are in flight: some are delivered by then.
const IN_FLIGHT_WAIT: Duration = Duration::from_secs(60);

/// Limits on one kind of mail.
#[derive(Clone, Copy, Debug)]
pub(super) struct MailLimits {
    /// Most mails in flight.
    pub(super) in_flight_max: u32,
    /// Most mails in an hour; all of them may be sent at once.
    pub(super) per_hour_max: u32,
}

/// Usage of a quota by its owners of one kind: organizations, users, or addresses. State is in
/// memory: a restart resets it.
#[derive(Debug)]
pub(super) struct QuotaTracker<Key: Clone + Eq + Hash> {
    limits: MailLimits,
    usages: Mutex<HashMap<Key, MailUsage>>,
}

#[derive(Debug)]
struct MailUsage {
    in_flight: u32,
    /// Mails of the last hour, less what has been refilled since.
    sent: f64,
    /// Time at which `sent` was computed.
    at: Instant,
}

/// Mails that count against a quota. Dropping it ends their time in flight.
#[derive(Debug)]
pub(super) struct QuotaReservation<Key: Clone + Eq + Hash> {
    quotas: Arc<QuotaTracker<Key>>,
    key: Key,
    mails: u32,
    /// True if the mails were sent; unsent ones do not count for the hour.
    is_sent: bool,
}

// === impl QuotaTracker ===

impl<Key: Clone + Eq + Hash> QuotaTracker<Key> {
    pub(super) fn new(limits: MailLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            usages: Mutex::default(),
        })
    }

    /// Counts mails of an owner.
    ///
    /// # Errors
    ///
    /// There would be too many; has the time after which to retry.
    pub(super) fn take(
        self: &Arc<Self>,
        key: Key,
        mails: u32,
    ) -> Result<QuotaReservation<Key>, Duration> {
        self.take_at(Instant::now(), key, mails)
    }

    fn take_at(
        self: &Arc<Self>,
        now: Instant,
        key: Key,
        mails: u32,
    ) -> Result<QuotaReservation<Key>, Duration> {
        let per_hour_max = f64::from(self.limits.per_hour_max);
        let mut usages = self.usages();
        usages.retain(|_, usage| usage.refill(now, per_hour_max));
        let usage = usages.entry(key.clone()).or_insert(MailUsage {
            in_flight: 0,
            sent: 0.0,
            at: now,
        });
        let above = usage.sent + f64::from(mails) - per_hour_max;
        if above > ROUNDING {
            return Err(HOUR.mul_f64(above / per_hour_max));
        }
        if usage.in_flight.saturating_add(mails) > self.limits.in_flight_max {
            return Err(IN_FLIGHT_WAIT);
        }
        usage.in_flight += mails;
        usage.sent += f64::from(mails);
        Ok(QuotaReservation {
            quotas: self.clone(),
            key,
            mails,
            is_sent: false,
        })
    }

    fn usages(&self) -> MutexGuard<'_, HashMap<Key, MailUsage>> {
        let usages = self.usages.lock();
        usages.unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl MailUsage ===

impl MailUsage {
    /// Refills the quota for the time that has passed; returns false if nothing counts any more.
    fn refill(&mut self, now: Instant, per_hour_max: f64) -> bool {
        let hours = (now - self.at).as_secs_f64() / HOUR.as_secs_f64();
        self.sent = (self.sent - hours * per_hour_max).max(0.0);
        self.at = now;
        self.in_flight > 0 || self.sent > 0.0
    }
}

// === impl QuotaReservation ===

impl<Key: Clone + Eq + Hash> QuotaReservation<Key> {
    /// Owner of the quota.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Splits off one mail, which counts as sent.
    pub(super) fn send_one(&mut self) -> Self {
        self.mails = self.mails.saturating_sub(1);
        Self {
            quotas: self.quotas.clone(),
            key: self.key.clone(),
            mails: 1,
            is_sent: true,
        }
    }
}

impl<Key: Clone + Eq + Hash> Drop for QuotaReservation<Key> {
    fn drop(&mut self) {
        let mut usages = self.quotas.usages();
        if let Some(usage) = usages.get_mut(&self.key) {
            usage.in_flight = usage.in_flight.saturating_sub(self.mails);
            if !self.is_sent {
                usage.sent = (usage.sent - f64::from(self.mails)).max(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const ACME: Uuid = Uuid::from_u128(1);
    const OTHER: Uuid = Uuid::from_u128(2);
    const MAILS_MAX: u32 = INVITATIONS.in_flight_max;

    #[test]
    fn mails_in_flight_are_limited_by_organization() {
        let quotas = QuotaTracker::new(INVITATIONS);
        let mut most = quotas.take(ACME, MAILS_MAX).unwrap();
        assert_eq!(quotas.take(ACME, 1).unwrap_err(), IN_FLIGHT_WAIT);
        drop(quotas.take(OTHER, MAILS_MAX).unwrap());
        drop(most.send_one());
        assert!(quotas.take(ACME, 1).is_ok(), "one is delivered");
        drop(most);
        assert!(quotas.take(ACME, MAILS_MAX).is_ok());
    }

    #[test]
    fn mails_in_an_hour_are_limited_by_organization() {
        let quotas = QuotaTracker::new(INVITATIONS);
        let begun = Instant::now();
        for _ in 0..INVITATIONS.per_hour_max {
            drop(quotas.take_at(begun, ACME, 1).unwrap().send_one());
        }
        let wait = quotas.take_at(begun, ACME, 10).unwrap_err();
        assert_eq!(wait.as_secs_f64().round(), 72.0);
        drop(quotas.take_at(begun, OTHER, 1).unwrap());
        let later = begun + wait;
        for _ in 0..10 {
            drop(quotas.take_at(later, ACME, 1).unwrap().send_one());
        }
        assert!(quotas.take_at(later, ACME, 1).is_err());
        drop(quotas.take_at(later + HOUR, OTHER, 1).unwrap());
        assert!(
            !quotas.usages().contains_key(&ACME),
            "unused entries are removed"
        );
    }

    #[test]
    fn unsent_mails_do_not_count_for_the_hour() {
        let quotas = QuotaTracker::new(INVITATIONS);
        for _ in 0..20 {
            drop(quotas.take(ACME, MAILS_MAX).unwrap());
        }
        assert!(quotas.take(ACME, MAILS_MAX).is_ok());
    }
}
