//! How much mail an organization may have on its way, and send in an hour: one that writes to
//! many strangers, or to servers that do not take its mails, leaves room for the others. Invitations
//! and notices to members count apart, so that neither takes the room of the other.
//!
//! Organizations cost nothing to make, so invitations count for who sends them as well, in all of theirs;
//! and for whom they go to, whoever sends them, so that nobody's letterbox is filled.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Invitations of an organization.
pub(super) const INVITATIONS: Limits = Limits {
    at_a_time_max: 100,
    per_hour_max: 500,
};
/// Invitations that one user sends, whichever organizations they are for.
pub(super) const INVITATIONS_BY_USER: Limits = INVITATIONS;
/// Invitations to one address, whoever sends them: some organizations, and each again when one was lost.
pub(super) const INVITATIONS_TO_ADDRESS: Limits = Limits {
    at_a_time_max: 10,
    per_hour_max: 10,
};
/// Notices; one counts once, however many members it goes to.
pub(super) const NOTICES: Limits = Limits {
    at_a_time_max: 10,
    per_hour_max: 100,
};
const HOUR: Duration = Duration::from_secs(3_600);
/// Less than any mail.
const ROUNDING: f64 = 1e-6;
/// When to come back where the mails on their way are too many: some arrive by then.
const PLACE_WAIT: Duration = Duration::from_secs(60);

/// Somebody's share of one kind of mail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Mails that may be on their way.
    pub(super) at_a_time_max: u32,
    /// Mails in an hour; so many at once, too.
    pub(super) per_hour_max: u32,
}

/// Use of their shares by all of a kind: organizations, users, or addresses. State is in memory: a restart
/// forgives.
#[derive(Debug)]
pub(super) struct Quotas<Of: Clone + Eq + Hash> {
    limits: Limits,
    accounts: Mutex<HashMap<Of, Account>>,
}

#[derive(Debug)]
struct Account {
    on_their_way: u32,
    /// Mails of the past, less what the time since gave back.
    sent: f64,
    /// When `sent` was right.
    at: Instant,
}

/// Mails that count; those that are not on their way any more cease to when this is dropped.
#[derive(Debug)]
pub(super) struct Share<Of: Clone + Eq + Hash> {
    quotas: Arc<Quotas<Of>>,
    of: Of,
    mails: u32,
    /// Mails that were not sent do not count for the hour.
    is_sent: bool,
}

// === impl Quotas ===

impl<Of: Clone + Eq + Hash> Quotas<Of> {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            accounts: Mutex::default(),
        })
    }

    /// Counts mails of one of them.
    ///
    /// # Errors
    ///
    /// They are too many; how long to wait until they may not be.
    pub(super) fn take(self: &Arc<Self>, of: Of, mails: u32) -> Result<Share<Of>, Duration> {
        self.take_at(Instant::now(), of, mails)
    }

    fn take_at(self: &Arc<Self>, now: Instant, of: Of, mails: u32) -> Result<Share<Of>, Duration> {
        let per_hour_max = f64::from(self.limits.per_hour_max);
        let mut accounts = self.accounts();
        accounts.retain(|_, account| account.settle(now, per_hour_max));
        let account = accounts.entry(of.clone()).or_insert(Account {
            on_their_way: 0,
            sent: 0.0,
            at: now,
        });
        let above = account.sent + f64::from(mails) - per_hour_max;
        if above > ROUNDING {
            return Err(HOUR.mul_f64(above / per_hour_max));
        }
        if account.on_their_way.saturating_add(mails) > self.limits.at_a_time_max {
            return Err(PLACE_WAIT);
        }
        account.on_their_way += mails;
        account.sent += f64::from(mails);
        Ok(Share {
            quotas: self.clone(),
            of,
            mails,
            is_sent: false,
        })
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<Of, Account>> {
        let accounts = self.accounts.lock();
        accounts.unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Account ===

impl Account {
    /// Gives back what time gives back; `false` if nothing counts any more.
    fn settle(&mut self, now: Instant, per_hour_max: f64) -> bool {
        let hours = (now - self.at).as_secs_f64() / HOUR.as_secs_f64();
        self.sent = (self.sent - hours * per_hour_max).max(0.0);
        self.at = now;
        self.on_their_way > 0 || self.sent > 0.0
    }
}

// === impl Share ===

impl<Of: Clone + Eq + Hash> Share<Of> {
    /// Owner of the share.
    pub(super) fn of(&self) -> &Of {
        &self.of
    }

    /// One of the mails, which is sent now.
    pub(super) fn send_one(&mut self) -> Self {
        self.mails = self.mails.saturating_sub(1);
        Self {
            quotas: self.quotas.clone(),
            of: self.of.clone(),
            mails: 1,
            is_sent: true,
        }
    }
}

impl<Of: Clone + Eq + Hash> Drop for Share<Of> {
    fn drop(&mut self) {
        let mut accounts = self.quotas.accounts();
        if let Some(account) = accounts.get_mut(&self.of) {
            account.on_their_way = account.on_their_way.saturating_sub(self.mails);
            if !self.is_sent {
                account.sent = (account.sent - f64::from(self.mails)).max(0.0);
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
    const MAILS_MAX: u32 = INVITATIONS.at_a_time_max;

    #[test]
    fn an_organization_has_its_places_and_no_more() {
        let quotas = Quotas::new(INVITATIONS);
        let mut most = quotas.take(ACME, MAILS_MAX).unwrap();
        assert_eq!(quotas.take(ACME, 1).unwrap_err(), PLACE_WAIT);
        drop(quotas.take(OTHER, MAILS_MAX).unwrap());
        drop(most.send_one());
        assert!(quotas.take(ACME, 1).is_ok(), "its place is free again");
        drop(most);
        assert!(quotas.take(ACME, MAILS_MAX).is_ok());
    }

    #[test]
    fn an_organization_has_its_hour_and_no_more() {
        let quotas = Quotas::new(INVITATIONS);
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
        assert!(!quotas.accounts().contains_key(&ACME), "it is forgotten");
    }

    #[test]
    fn mails_that_were_not_sent_do_not_count() {
        let quotas = Quotas::new(INVITATIONS);
        for _ in 0..20 {
            drop(quotas.take(ACME, MAILS_MAX).unwrap());
        }
        assert!(quotas.take(ACME, MAILS_MAX).is_ok());
    }
}
