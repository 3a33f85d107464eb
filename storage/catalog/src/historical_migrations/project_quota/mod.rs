//! Quota of one project: counts a node's report and decides on its leases, without a database.
//!
//! A node reports totals, never changes, so that reporting twice changes nothing: the events that
//! it ever counted, and those that it holds. Events of a lease whose answer the node did not get
//! are back with the project by the next report.

use super::bucket::Bucket;
use sea_orm::prelude::Uuid;

/// Id of the default quota: the events that every project may import without an approval.
pub const DEFAULT_QUOTA: Uuid = Uuid::nil();
/// Time that a node's request for others' leases is remembered, in microseconds.
pub const REVOKE_REQUEST_MICROS: i64 = 5_000_000;

/// Volume that a project's events may be counted under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Migration of the grant; [`DEFAULT_QUOTA`] for events that need no approval.
    pub id: Uuid,
    /// Events that may come in a minute.
    pub per_minute: i64,
    /// Events that are not counted yet; negative if the grant was made smaller since.
    pub left: i64,
    /// True while more of its events may come.
    pub is_open: bool,
    /// Events that were counted just now.
    pub newly_counted: i64,
}

/// Quota lease: a node's part of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Node that has the lease.
    pub node: String,
    /// Grant that the lease is of.
    pub grant_id: Uuid,
    /// Events counted, ever.
    pub counted: i64,
    /// Events leased that are neither counted nor given back.
    pub held: i64,
    /// True if the node can be using the lease; a node that was not heard of for long does not.
    pub is_live: bool,
    /// True if the lease is to be written.
    pub has_changed: bool,
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
    /// Node that asked for what others hold, and when.
    pub revoke_request: Option<(String, i64)>,
    /// True if the organization may import at all.
    pub is_allowed: bool,
}

/// Report of a node about a project's lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseReport {
    /// Events that it counted, ever.
    pub counted: i64,
    /// Events that it was leased and has neither counted nor given back.
    pub held: i64,
    /// Time since it last let somebody use any of the lease, in microseconds; 0 if it does not
    /// know.
    pub unused_micros: i64,
    /// Events that would let in all requests that wait.
    pub needed: i64,
    /// Events that would let in the smallest of them.
    pub needed_least: i64,
    /// Events that it would put aside for requests to come, if there is plenty.
    pub stock: i64,
}

/// Answer to a node's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseDecision {
    /// Events that the node was leased.
    pub given: i64,
    /// Events, of those that it held before, that it must not use any more.
    pub give_back: i64,
    /// True if another node wants what this one does not need.
    pub is_wanted: bool,
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
    /// Counts the events that `node` reports, and leases it what it asks for, if there is as much.
    pub fn settle(
        &mut self,
        node: &str,
        now: i64,
        lease_report: LeaseReport,
        default_rate: i64,
    ) -> LeaseDecision {
        let per_minute = self.rate(default_rate);
        if self.bucket.was_filled() {
            // Events that are counted now were held until they were used.
            let used_at = now.saturating_sub(lease_report.unused_micros.max(0));
            self.fill(used_at, per_minute);
        }
        self.count(node, lease_report.counted);
        let (returned, too_many) = self.hold(node, lease_report.held);
        if self.of(node).all(|lease| lease.is_live) {
            self.bucket.put_back(returned);
        } else {
            // The bucket was filled as if the node had given up all its events. It had, but for
            // requests that were under way all the time.
            self.bucket.take(self.held(|lease| lease.node == node));
            self.revive(node);
        }
        self.fill(now, per_minute);
        let held_elsewhere = self.held(|lease| lease.is_live && lease.node != node);
        let is_wanted = self.is_wanted(node, now);
        let given = self.amount(lease_report, is_wanted);
        self.give(node, given);
        self.note_revoke_request(node, now, lease_report, given, held_elsewhere);
        let ended = |lease: &Lease| lease.node == node && !self.is_open(lease.grant_id);
        let of_ended = match self.is_allowed {
            true => self.held(ended),
            false => self.held(|lease| lease.node == node),
        };
        LeaseDecision {
            given,
            give_back: of_ended + too_many,
            is_wanted,
            per_minute,
            in_bucket: self.bucket.events(),
            free: self.free(),
            held_elsewhere,
            is_allowed: self.is_allowed,
        }
    }

    fn fill(&mut self, until: i64, per_minute: i64) {
        let held_live = self.held(|lease| lease.is_live);
        self.bucket.fill(until, per_minute, held_live);
    }

    /// Counts events under the grants that the node has leases of, the oldest first.
    fn count(&mut self, node: &str, counted: i64) {
        let known: i64 = self.of(node).map(|lease| lease.counted).sum();
        let mut rest = counted.saturating_sub(known).max(0);
        for grant in &mut self.grants {
            let of_grant = |lease: &&mut Lease| lease.node == node && lease.grant_id == grant.id;
            if let Some(lease) = self.leases.iter_mut().find(of_grant) {
                let counted = rest.min(lease.held);
                lease.held -= counted;
                lease.add(counted, grant);
                rest -= counted;
            }
        }
        if rest == 0 {
            return;
        }
        // The node reports more events than its lease had: the catalog is older than the node's
        // log. Events in the log are counted nevertheless.
        let open = self.grants.iter().position(|grant| grant.is_open);
        let place = open.unwrap_or(self.grants.len().saturating_sub(1));
        let Some(id) = self.grants.get(place).map(|grant| grant.id) else {
            return;
        };
        let at = self.lease_at(node, id);
        if let (Some(lease), Some(grant)) = (self.leases.get_mut(at), self.grants.get_mut(place)) {
            lease.add(rest, grant);
        }
    }

    /// Records how much the node still holds; answers the events that it returned, and those that
    /// it holds without a lease.
    fn hold(&mut self, node: &str, held: i64) -> (i64, i64) {
        let known = self.held(|lease| lease.node == node);
        let returned = known.saturating_sub(held).max(0);
        let mut rest = returned;
        for wants_open in [false, true] {
            for grant in self.grants.iter().rev() {
                let of_grant = |lease: &&mut Lease| {
                    lease.node == node && lease.grant_id == grant.id && grant.is_open == wants_open
                };
                if let Some(lease) = self.leases.iter_mut().find(of_grant) {
                    let back = rest.min(lease.held);
                    lease.held -= back;
                    lease.has_changed |= back > 0;
                    rest -= back;
                }
            }
        }
        (returned - rest, held.saturating_sub(known).max(0))
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

    /// Number of events to lease: those needed, else those that let some requests in, and a stock
    /// if there is plenty.
    fn amount(&self, lease_report: LeaseReport, is_wanted: bool) -> i64 {
        if !self.is_allowed {
            return 0;
        }
        let there = self.bucket.events().min(self.free()).max(0);
        let stock = if is_wanted { 0 } else { lease_report.stock };
        if there >= lease_report.needed.saturating_add(stock.saturating_mul(2)) {
            lease_report.needed + stock
        } else if there >= lease_report.needed_least && lease_report.needed > 0 {
            there.min(lease_report.needed)
        } else {
            0
        }
    }

    fn give(&mut self, node: &str, events: i64) {
        self.bucket.take(events);
        let mut rest = events;
        let open = self.grants.iter().filter(|grant| grant.is_open);
        let free: Vec<(Uuid, i64)> = open.map(|it| (it.id, self.free_of(it))).collect();
        for (id, free) in free {
            let given = rest.min(free.max(0));
            if given > 0 {
                let at = self.lease_at(node, id);
                if let Some(lease) = self.leases.get_mut(at) {
                    lease.held += given;
                    lease.has_changed = true;
                }
                rest -= given;
            }
        }
    }

    fn is_wanted(&mut self, node: &str, now: i64) -> bool {
        let is_old =
            |(_, since): &(String, i64)| now.saturating_sub(*since) > REVOKE_REQUEST_MICROS;
        if self.revoke_request.as_ref().is_some_and(is_old) {
            self.revoke_request = None;
        }
        self.revoke_request
            .as_ref()
            .is_some_and(|(by, _)| by != node)
    }

    /// Keeps one revoke request at a time, until it is met or old: two nodes that each want the
    /// other's events would otherwise both wait.
    fn note_revoke_request(
        &mut self,
        node: &str,
        now: i64,
        lease_report: LeaseReport,
        given: i64,
        held_elsewhere: i64,
    ) {
        let is_met = lease_report.needed > 0 && given >= lease_report.needed_least;
        match &self.revoke_request {
            Some((by, _)) if by != node => {}
            _ if lease_report.needed > 0 && !is_met && held_elsewhere > 0 && self.is_allowed => {
                self.revoke_request = Some((node.to_owned(), now));
            }
            Some(_) if is_met => self.revoke_request = None,
            _ => {}
        }
    }

    /// Events of all open grants that may be leased.
    fn free(&self) -> i64 {
        let open = self.grants.iter().filter(|grant| grant.is_open);
        open.map(|grant| self.free_of(grant).max(0)).sum()
    }

    fn free_of(&self, grant: &Grant) -> i64 {
        grant.left - self.held(|lease| lease.grant_id == grant.id)
    }

    fn held(&self, which: impl Fn(&Lease) -> bool) -> i64 {
        let held = self.leases.iter().filter(|lease| which(lease));
        held.map(|lease| lease.held).sum()
    }

    fn of(&self, node: &str) -> impl Iterator<Item = &Lease> {
        self.leases.iter().filter(move |lease| lease.node == node)
    }

    fn is_open(&self, id: Uuid) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.id == id && grant.is_open)
    }

    fn revive(&mut self, node: &str) {
        let of_node = self.leases.iter_mut().filter(|lease| lease.node == node);
        of_node.for_each(|lease| lease.is_live = true);
    }

    /// Index of a node's lease, which is created if need be.
    fn lease_at(&mut self, node: &str, grant_id: Uuid) -> usize {
        let same = |lease: &Lease| lease.node == node && lease.grant_id == grant_id;
        self.leases.iter().position(same).unwrap_or_else(|| {
            self.leases.push(Lease {
                node: node.to_owned(),
                grant_id,
                counted: 0,
                held: 0,
                is_live: true,
                has_changed: true,
            });
            self.leases.len() - 1
        })
    }
}

impl Lease {
    fn add(&mut self, events: i64, grant: &mut Grant) {
        self.counted += events;
        self.has_changed |= events > 0;
        grant.left -= events;
        grant.newly_counted += events;
    }
}

#[cfg(test)]
mod tests;
