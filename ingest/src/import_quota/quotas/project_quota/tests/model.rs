//! Model of nodes that ask, import, crash and start again.

use super::super::{DEFAULT_QUOTA, Grant, Lease, LeaseDecision, LeaseReport, ProjectQuota};
use crate::import_quota::quotas::bucket::Bucket;
use proptest::prelude::*;
use uuid::Uuid;

pub(super) const SECOND: i64 = 1_000_000;
/// Time that a node uses its leases without having been heard.
const USES: i64 = 10 * SECOND;
const NODES: usize = 3;
pub(super) const RATE: i64 = 600;

/// Node of the model.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Index of its lease, which it has since it started.
    lease: usize,
    pub(super) imported: i64,
    pub(super) available: i64,
    /// Events that it was given and neither imported nor gave back, as it knows.
    pub(super) held: i64,
    /// Time of its last answer.
    heard_at: i64,
    /// Time of its last events.
    used_at: i64,
    is_up: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A node reports; its answer may be lost.
    Ask {
        node: usize,
        needed: i64,
        stock: i64,
        is_lost: bool,
    },
    /// Events come in, if the node may take them.
    Import {
        node: usize,
        events: i64,
    },
    /// A node gives back what it does not use.
    Return {
        node: usize,
    },
    Crash {
        node: usize,
    },
    Pass {
        micros: i64,
    },
    /// The operator approves so many more events; or ends all approvals.
    Approve {
        total: i64,
    },
    End,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 0..NODES;
    let step = prop_oneof![
        6 => (node(), 0..500_i64, 0..200_i64, prop::bool::weighted(0.1)).prop_map(
            |(node, needed, stock, is_lost)| Step::Ask { node, needed, stock, is_lost }
        ),
        6 => (node(), 0..300_i64).prop_map(|(node, events)| Step::Import { node, events }),
        1 => node().prop_map(|node| Step::Return { node }),
        1 => node().prop_map(|node| Step::Crash { node }),
        3 => (0..15 * SECOND).prop_map(|micros| Step::Pass { micros }),
        1 => (0..2_000_i64).prop_map(|total| Step::Approve { total }),
        1 => Just(Step::End),
    ];
    prop::collection::vec(step, 1..80)
}

pub(super) struct Model {
    pub(super) quota: ProjectQuota,
    totals: Vec<i64>,
    pub(super) nodes: Vec<Node>,
    /// Leases of all starts of nodes.
    pub(super) leases: Vec<Vec<Lease>>,
    /// Events that came back after their lease had expired.
    expired: i64,
    /// Approvals that were finished for being used up.
    used_up: Vec<Uuid>,
    pub(super) now: i64,
    imports: Vec<(i64, i64)>,
}

impl Model {
    pub(super) fn new(default_quota: i64) -> Self {
        Self {
            quota: ProjectQuota {
                grants: vec![grant(DEFAULT_QUOTA, default_quota)],
                leases: Vec::new(),
                bucket: Bucket::FULL,
                is_allowed: true,
            },
            totals: vec![default_quota],
            nodes: vec![Node::default(); NODES],
            leases: Vec::new(),
            expired: 0,
            used_up: Vec::new(),
            now: 0,
            imports: Vec::new(),
        }
    }

    pub(super) fn ask(
        &mut self,
        at: usize,
        needed: i64,
        stock: i64,
        is_lost: bool,
    ) -> LeaseDecision {
        let now = self.now;
        let node = &mut self.nodes[at];
        if !node.is_up {
            *node = Node {
                lease: self.leases.len(),
                heard_at: now,
                used_at: now,
                is_up: true,
                ..Node::default()
            };
            self.leases.push(Vec::new());
        } else if now - node.heard_at >= USES {
            node.held -= node.available;
            node.available = 0;
        }
        let lease_report = LeaseReport {
            counted: node.imported,
            held: node.held,
            available: node.available,
            unused_micros: now - node.used_at,
            needed,
            stock,
        };
        let own = node.lease;
        let known = std::mem::take(&mut self.leases[own]);
        let of_others = self.leases.iter().flatten().cloned();
        let of_others = of_others.map(|lease| Lease {
            is_own: false,
            ..lease
        });
        self.quota.leases = of_others.chain(known.iter().cloned()).collect();
        let decision = self.quota.settle(now, lease_report, RATE);
        let used_up = self.quota.used_up(now);
        let mut own_leases = std::mem::take(&mut self.quota.leases);
        own_leases.retain(|lease| lease.is_own);
        self.expired += self.expired_now(&known, &own_leases, decision.given);
        for grant in &mut self.quota.grants {
            grant.is_open &= !used_up.contains(&grant.id);
        }
        self.used_up.extend(used_up);
        if own_leases.iter().any(|lease| lease.held > 0) {
            self.leases[own] = own_leases;
        }
        let node = &mut self.nodes[at];
        if !is_lost {
            node.heard_at = now;
            node.available += decision.given;
            node.held += decision.given;
            let back = decision.give_back.min(node.available);
            node.available -= back;
            node.held -= back;
        }
        decision
    }

    /// Events that came back of leases that had expired by a report. Leases of ended grants expire
    /// one by one; those of open grants expire together, and are leased what is given.
    fn expired_now(&self, before: &[Lease], after: &[Lease], given: i64) -> i64 {
        let is_open = |lease: &Lease| self.quota.is_open(lease.grant_id);
        let expired = before.iter().filter(|lease| lease.expires_at <= self.now);
        let (late, ended): (Vec<&Lease>, Vec<&Lease>) = expired.partition(|lease| is_open(lease));
        let is_ended = |lease: &Lease| ended.iter().any(|it| it.grant_id == lease.grant_id);
        let events = |leases: &[Lease], is_counted: &dyn Fn(&Lease) -> bool| -> i64 {
            let leases = leases.iter().filter(|lease| is_counted(lease));
            leases.map(|lease| lease.held + lease.counted).sum()
        };
        let of_ended = events(before, &is_ended) - events(after, &is_ended);
        if late.is_empty() {
            return of_ended;
        }
        of_ended + events(before, &is_open) + given - events(after, &is_open)
    }

    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::Ask {
                node,
                needed,
                stock,
                is_lost,
            } => drop(self.ask(node, needed, stock, is_lost)),
            Step::Import { node, events } => {
                let node = &mut self.nodes[node];
                let may = node.is_up && self.now - node.heard_at < USES;
                if may && node.available >= events {
                    node.available -= events;
                    node.held -= events;
                    node.imported += events;
                    node.used_at = self.now;
                    self.imports.push((self.now, events));
                }
            }
            Step::Return { node } => {
                let node = &mut self.nodes[node];
                node.held -= node.available;
                node.available = 0;
            }
            Step::Crash { node } => self.nodes[node].is_up = false,
            Step::Pass { micros } => self.now += micros,
            Step::Approve { total } => {
                self.quota.grants[0].is_open = false;
                let id = Uuid::from_u128(self.totals.len() as u128);
                self.quota.grants.push(grant(id, total));
                self.totals.push(total);
            }
            Step::End => {
                for grant in &mut self.quota.grants {
                    grant.is_open = grant.id == DEFAULT_QUOTA;
                }
            }
        }
    }

    pub(super) fn counted(&self) -> i64 {
        let grants = self.quota.grants.iter();
        grants.map(|grant| grant.newly_counted).sum()
    }

    /// Events that nodes hold, those that crashed included.
    pub(super) fn held(&self) -> i64 {
        self.leases.iter().flatten().map(|lease| lease.held).sum()
    }

    fn imported(&self) -> i64 {
        self.imports.iter().map(|(_, events)| events).sum()
    }

    pub(super) fn check(&self) -> Result<(), TestCaseError> {
        for (grant, total) in self.quota.grants.iter().zip(&self.totals) {
            prop_assert_eq!(grant.newly_leased + grant.left, *total);
            prop_assert!(grant.newly_counted <= grant.newly_leased, "{grant:?}");
            prop_assert!(grant.left >= 0, "{grant:?} of {total}");
        }
        let is_used_up = |grant: &&Grant| self.used_up.contains(&grant.id);
        for grant in self.quota.grants.iter().filter(is_used_up) {
            prop_assert_eq!(grant.left, 0, "{:?}", grant);
        }
        let leased = self.quota.grants.iter().map(|grant| grant.newly_leased);
        let leased: i64 = leased.sum();
        prop_assert_eq!(leased, self.counted() + self.held() + self.expired);
        prop_assert!(self.counted() <= self.imported());
        prop_assert!(self.imported() <= self.counted() + self.held());
        Ok(())
    }

    /// Checks that no time has more events than one minute's and its own.
    pub(super) fn check_rate(&self) -> Result<(), TestCaseError> {
        for (first, (from, _)) in self.imports.iter().enumerate() {
            let mut sum = 0;
            for (at, events) in &self.imports[first..] {
                sum += events;
                let allowed = RATE * 60 * SECOND + (at - from) * RATE;
                prop_assert!(sum * 60 * SECOND <= allowed, "{sum} in {}", at - from);
            }
        }
        Ok(())
    }

    /// Stops all nodes cleanly: they report, and give all back.
    pub(super) fn stop(&mut self) {
        for at in 0..NODES {
            if self.nodes[at].is_up {
                self.take(Step::Return { node: at });
                self.ask(at, 0, 0, false);
            }
        }
    }
}

fn grant(id: Uuid, left: i64) -> Grant {
    Grant {
        id,
        per_minute: RATE,
        left,
        is_open: true,
        newly_leased: 0,
        newly_counted: 0,
    }
}
