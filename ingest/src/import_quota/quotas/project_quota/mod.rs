//! Quota of one project: counts a node's report and decides on its lease, without a database.
//!
//! A lease takes its events out of a grant, so that no crash can exceed what was granted. A node
//! reports states, never changes, so that reporting twice changes nothing: events of a lease whose
//! answer was lost are back with the project by the next report. Once a lease has expired nothing
//! of it comes back, unless the node reports while its grant is open: an approval that was finished
//! for being used up stays so.

use super::bucket::Bucket;
use uuid::Uuid;

/// Id of the default quota: the events that every project may import without an approval.
pub const DEFAULT_QUOTA: Uuid = Uuid::nil();
/// Time since the last report after which a lease returns nothing, in microseconds. A node stops
/// using its leases well before.
pub const EXPIRY_MICROS: i64 = 20_000_000;
/// Time of a full bucket, in microseconds.
const MINUTE_MICROS: i64 = 60_000_000;

/// Volume that a project's events are leased from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Migration of the grant; [`DEFAULT_QUOTA`] for events that need no approval.
    pub id: Uuid,
    /// Events that may come in a minute.
    pub per_minute: i64,
    /// Events that are not leased; negative if the grant was made smaller since.
    pub left: i64,
    /// True while more of its events may come.
    pub is_open: bool,
    /// Events that were leased just now, less those that came back.
    pub newly_leased: i64,
    /// Events that were counted just now.
    pub newly_counted: i64,
}

/// Part of a node's lease that is of one grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Grant that the events are of.
    pub grant_id: Uuid,
    /// Events counted.
    pub counted: i64,
    /// Events leased that are neither counted nor given back.
    pub held: i64,
    /// True for the lease of the node that reports.
    pub is_own: bool,
    /// Time from which the lease returns nothing, in microseconds.
    pub expires_at: i64,
}

/// Quota of one project.
#[derive(Clone, Debug)]
pub struct ProjectQuota {
    /// Grants in the order in which they are used up.
    pub grants: Vec<Grant>,
    /// Leases of all nodes.
    pub leases: Vec<Lease>,
    /// Rate limit.
    pub bucket: Bucket,
    /// True if the organization may import at all.
    pub is_allowed: bool,
}

/// Report of a node about a project's lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseReport {
    /// Events that it counted since it started.
    pub counted: i64,
    /// Events that it was leased and has neither counted nor given back.
    pub held: i64,
    /// Events of these that no request is using.
    pub available: i64,
    /// Time since it last let somebody use any of the lease, in microseconds.
    pub unused_micros: i64,
    /// Events that a request waits for.
    pub needed: i64,
    /// Events that it would put aside for requests to come.
    pub stock: i64,
}

/// Answer to a node's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseDecision {
    /// Events that the node was leased.
    pub given: i64,
    /// Events, of those that were available before, that it must not use any more.
    pub give_back: i64,
    /// Events that may come in a minute.
    pub per_minute: i64,
    /// Events left in the bucket.
    pub in_bucket: i64,
    /// Events left of the volume that no node holds.
    pub free: i64,
    /// Events that other nodes hold and can give back.
    pub held_elsewhere: i64,
    /// True if the organization may import at all.
    pub is_allowed: bool,
}

impl ProjectQuota {
    /// Counts the events that the node reports, and leases it what it asks for, if there is as
    /// much.
    pub fn settle(
        &mut self,
        now: i64,
        lease_report: LeaseReport,
        default_rate: i64,
    ) -> LeaseDecision {
        let per_minute = self.rate(default_rate);
        // The clock went back: the bucket would not fill for as long as that.
        if self.bucket.at > now.saturating_add(MINUTE_MICROS) {
            self.bucket.at = now;
        }
        // Events that are counted now were held until they were used.
        let used_at = now.saturating_sub(lease_report.unused_micros.max(0));
        self.fill(used_at, now, per_minute);
        self.count(lease_report.counted);
        let unknown = self.take_back(now, lease_report.held);
        self.fill(now, now, per_minute);
        let given = self.amount(lease_report);
        self.give(given, lease_report.counted);
        self.extend(now);
        let is_ended = |lease: &Lease| !self.is_allowed || !self.is_open(lease.grant_id);
        let ended = self.held(|lease| lease.is_own && is_ended(lease));
        let in_use = lease_report.held - lease_report.available;
        LeaseDecision {
            given,
            give_back: (ended - in_use.max(0)).max(0) + unknown,
            per_minute,
            in_bucket: self.bucket.events(),
            free: self.free(),
            held_elsewhere: self.held(|lease| lease.expires_at > now && !lease.is_own),
            is_allowed: self.is_allowed,
        }
    }

    /// Approvals that are used up: nothing is left, and no lease can bring anything back.
    pub fn used_up(&self, now: i64) -> Vec<Uuid> {
        let used_up = self.grants.iter().filter(|grant| {
            let is_held = |lease: &Lease| {
                lease.grant_id == grant.id && lease.held > 0 && lease.expires_at > now
            };
            let is_approval = grant.is_open && grant.id != DEFAULT_QUOTA;
            is_approval && grant.left <= 0 && !self.leases.iter().any(is_held)
        });
        used_up.map(|grant| grant.id).collect()
    }

    /// Fills the bucket. Events of a lease that expired within a minute may have been used just
    /// before it did.
    fn fill(&mut self, until: i64, now: i64, per_minute: i64) {
        let held = self.held(|lease| lease.expires_at > now - MINUTE_MICROS);
        self.bucket.fill(until, per_minute, held);
    }

    /// Counts events under the grants that they were leased of, the oldest first.
    fn count(&mut self, counted: i64) {
        let own = self.leases.iter().filter(|lease| lease.is_own);
        let known: i64 = own.map(|lease| lease.counted).sum();
        let mut rest = counted.saturating_sub(known).max(0);
        for grant in &mut self.grants {
            let of_grant = |lease: &&mut Lease| lease.is_own && lease.grant_id == grant.id;
            if let Some(lease) = self.leases.iter_mut().find(of_grant) {
                let counted = rest.min(lease.held);
                lease.held -= counted;
                lease.counted += counted;
                grant.newly_counted += counted;
                rest -= counted;
            }
        }
    }

    /// Takes back what the node does not hold any more, for ended grants first; answers the events
    /// that it holds without a lease. Of a lease that has expired nothing returns to its grant.
    fn take_back(&mut self, now: i64, held: i64) -> i64 {
        let known = self.held(|lease| lease.is_own);
        let mut rest = known.saturating_sub(held).max(0);
        for wants_open in [false, true] {
            for grant in self.grants.iter_mut().rev() {
                let of_grant = |lease: &&mut Lease| {
                    lease.is_own && lease.grant_id == grant.id && grant.is_open == wants_open
                };
                if let Some(lease) = self.leases.iter_mut().find(of_grant) {
                    let back = rest.min(lease.held);
                    lease.held -= back;
                    rest -= back;
                    if lease.expires_at > now {
                        grant.lease(-back);
                        self.bucket.put_back(back);
                    }
                }
            }
        }
        held.saturating_sub(known).max(0)
    }

    /// Extends the leases of the node, but for those of ended grants that have expired.
    fn extend(&mut self, now: i64) {
        let Self { grants, leases, .. } = self;
        for lease in leases.iter_mut().filter(|lease| lease.is_own) {
            let mut of_lease = grants.iter().filter(|grant| grant.id == lease.grant_id);
            if lease.expires_at > now || of_lease.any(|grant| grant.is_open) {
                lease.expires_at = now + EXPIRY_MICROS;
            }
        }
    }

    /// Highest rate of the grants that are open.
    fn rate(&self, default_rate: i64) -> i64 {
        let open = self.grants.iter().filter(|grant| grant.is_open);
        let rate = |needs_left: bool| {
            let usable = open.clone().filter(|grant| !needs_left || grant.left > 0);
            usable.map(|grant| grant.per_minute).max()
        };
        rate(true).or_else(|| rate(false)).unwrap_or(default_rate)
    }

    /// Number of events to lease: those needed or none, and a stock: all of it if there is plenty,
    /// else for a request at most half of what it leaves.
    fn amount(&self, lease_report: LeaseReport) -> i64 {
        let LeaseReport { needed, stock, .. } = lease_report;
        let there = self.bucket.events().min(self.free()).max(0);
        let spare = there.saturating_sub(needed);
        if !self.is_allowed || spare < 0 {
            0
        } else if spare >= stock.saturating_mul(2) {
            needed + stock
        } else if needed > 0 {
            needed + stock.min(spare / 2)
        } else {
            0
        }
    }

    /// Leases events of the open grants, the oldest first. `counted` is what the node counted
    /// before its lease begins.
    fn give(&mut self, events: i64, counted: i64) {
        self.bucket.take(events);
        let is_first = !self.leases.iter().any(|lease| lease.is_own);
        let mut begins_at = is_first.then_some(counted);
        let mut rest = events;
        for grant in self.grants.iter_mut().filter(|grant| grant.is_open) {
            let part = rest.min(grant.left);
            if part <= 0 {
                continue;
            }
            rest -= part;
            grant.lease(part);
            let of_grant = |lease: &&mut Lease| lease.is_own && lease.grant_id == grant.id;
            match self.leases.iter_mut().find(of_grant) {
                Some(lease) => lease.held += part,
                None => self.leases.push(Lease {
                    grant_id: grant.id,
                    counted: begins_at.take().unwrap_or_default(),
                    held: part,
                    is_own: true,
                    expires_at: 0,
                }),
            }
        }
    }

    /// Events of all open grants that may be leased.
    fn free(&self) -> i64 {
        let open = self.grants.iter().filter(|grant| grant.is_open);
        let left = open.map(|grant| grant.left.max(0));
        left.fold(0, i64::saturating_add)
    }

    fn held(&self, which: impl Fn(&Lease) -> bool) -> i64 {
        let held = self.leases.iter().filter(|lease| which(lease));
        held.map(|lease| lease.held).sum()
    }

    fn is_open(&self, id: Uuid) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.id == id && grant.is_open)
    }
}

impl Grant {
    /// Takes events out of the grant, or puts them back.
    const fn lease(&mut self, events: i64) {
        self.left -= events;
        self.newly_leased += events;
    }
}

#[cfg(test)]
mod tests;
