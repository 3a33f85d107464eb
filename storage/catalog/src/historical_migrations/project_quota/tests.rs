//! Nodes that ask, import, crash and start again, against a model that knows what came in.

use super::*;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;
/// Time that a node uses its leases without having been heard.
const USES: i64 = 10 * SECOND;
const NODES: usize = 3;
const RATE: i64 = 600;

/// Node of the model.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Index of its lease, which it has since it started.
    lease: usize,
    imported: i64,
    available: i64,
    /// Events that it was given and neither imported nor gave back, as it knows.
    held: i64,
    /// Time of its last answer.
    heard_at: i64,
    /// Time of its last events.
    used_at: i64,
    is_up: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
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

fn steps() -> impl Strategy<Value = Vec<Step>> {
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

struct Model {
    quota: ProjectQuota,
    totals: Vec<i64>,
    nodes: Vec<Node>,
    /// Leases of all starts of nodes.
    leases: Vec<Vec<Lease>>,
    /// Events that came back after their lease had expired.
    expired: i64,
    now: i64,
    imports: Vec<(i64, i64)>,
}

impl Model {
    fn new(default_quota: i64) -> Self {
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
            now: 0,
            imports: Vec::new(),
        }
    }

    fn ask(&mut self, at: usize, needed: i64, stock: i64, is_lost: bool) -> LeaseDecision {
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
        let counted_before = self.counted();
        let decision = self.quota.settle(now, lease_report, RATE);
        let mut own_leases = std::mem::take(&mut self.quota.leases);
        own_leases.retain(|lease| lease.is_own);
        let held = |leases: &[Lease]| leases.iter().map(|lease| lease.held).sum::<i64>();
        if known.iter().any(|lease| lease.expires_at <= now) {
            let counted = self.counted() - counted_before;
            self.expired += held(&known) - counted + decision.given - held(&own_leases);
        }
        if held(&own_leases) > 0 {
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

    fn take(&mut self, step: Step) {
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

    fn counted(&self) -> i64 {
        let grants = self.quota.grants.iter();
        grants.map(|grant| grant.newly_counted).sum()
    }

    /// Events that nodes hold, those that crashed included.
    fn held(&self) -> i64 {
        self.leases.iter().flatten().map(|lease| lease.held).sum()
    }

    fn imported(&self) -> i64 {
        self.imports.iter().map(|(_, events)| events).sum()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (grant, total) in self.quota.grants.iter().zip(&self.totals) {
            prop_assert_eq!(grant.newly_leased + grant.left, *total);
            prop_assert!(grant.newly_counted <= grant.newly_leased, "{grant:?}");
            prop_assert!(grant.left >= 0, "{grant:?} of {total}");
        }
        let leased = self.quota.grants.iter().map(|grant| grant.newly_leased);
        let leased: i64 = leased.sum();
        prop_assert_eq!(leased, self.counted() + self.held() + self.expired);
        prop_assert!(self.counted() <= self.imported());
        prop_assert!(self.imported() <= self.counted() + self.held());
        Ok(())
    }

    /// Checks that no time has more events than one minute's and its own.
    fn check_rate(&self) -> Result<(), TestCaseError> {
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
    fn stop(&mut self) {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn volume_and_rate_are_never_exceeded_and_a_crash_forfeits_what_the_node_held(
        default_quota in 0..5_000_i64,
        steps in steps(),
    ) {
        let mut model = Model::new(default_quota);
        for step in steps {
            model.take(step);
            model.check()?;
        }
        model.check_rate()?;
        model.stop();
        model.check()?;
        // What is still held is of nodes that crashed, and all else can be imported.
        let open = model.quota.grants.iter().filter(|it| it.is_open);
        let left: i64 = open.map(|it| it.left).sum();
        model.now += 120 * SECOND;
        let wanted = left.min(RATE);
        prop_assert_eq!(model.ask(0, wanted, 0, false).given, wanted);
        prop_assert_eq!(model.ask(1, left + 1, 0, false).given, 0);
    }
}

#[test]
fn a_stock_is_leased_where_there_is_plenty_and_else_in_part_with_what_is_needed() {
    let table = [
        // needed, stock, left, given
        (10, 5, 100, 15),
        (10, 5, 20, 15),
        (10, 5, 16, 13),
        (10, 5, 10, 10),
        (10, 5, 9, 0),
        (0, 5, 10, 5),
        (0, 5, 9, 0),
    ];
    for (needed, stock, left, given) in table {
        let mut model = Model::new(left);
        let decision = model.ask(0, needed, stock, false);
        assert_eq!(decision.given, given, "{needed} and {stock} of {left}");
        assert_eq!(decision.free, left - given);
    }
}

#[test]
fn approvals_without_a_limit_can_be_leased_together() {
    let mut model = Model::new(0);
    for _ in 0..2 {
        model.take(Step::Approve { total: i64::MAX });
    }
    let decision = model.ask(0, 5, 0, false);
    assert_eq!((decision.given, decision.free), (5, i64::MAX));
}

#[test]
fn a_clock_that_goes_back_by_a_day_stops_no_import() {
    let mut model = Model::new(10_000);
    model.now = 86_400 * SECOND;
    assert_eq!(model.ask(0, RATE, 0, false).given, RATE);
    model.take(Step::Import {
        node: 0,
        events: RATE,
    });
    model.now = 0;
    assert_eq!(model.ask(0, 1, 0, false).given, 0);
    model.now = 60 * SECOND;
    assert_eq!(model.ask(0, RATE, 0, false).given, RATE);
}

#[test]
fn the_unused_part_of_a_lease_returns_before_it_expires_and_never_after() {
    for (passed, free) in [(EXPIRY_MICROS - 1, 70), (EXPIRY_MICROS, 40)] {
        let mut model = Model::new(100);
        assert_eq!(model.ask(0, 60, 0, false).given, 60);
        model.take(Step::Import {
            node: 0,
            events: 30,
        });
        model.now += passed;
        // The node gives up what it does not use, and what it imported is counted late.
        assert_eq!(model.ask(0, 0, 0, false).free, free, "after {passed}");
        assert_eq!(model.counted(), 30);
        assert_eq!(model.held(), 0);
    }
}

#[test]
fn an_approval_is_used_up_when_no_lease_of_it_can_bring_anything_back() {
    let mut model = Model::new(100);
    model.take(Step::Approve { total: 50 });
    let id = model.quota.grants[1].id;
    model.ask(0, 50, 0, false);
    model.quota.leases = model.leases[0].clone();
    assert!(model.quota.used_up(EXPIRY_MICROS - 1).is_empty());
    assert_eq!(model.quota.used_up(EXPIRY_MICROS), [id]);
}

#[test]
fn leases_of_an_ended_approval_are_revoked_and_their_imported_events_counted() {
    let mut model = Model::new(100);
    model.take(Step::Approve { total: 50 });
    assert_eq!(model.ask(0, 30, 0, false).given, 30);
    model.take(Step::Import {
        node: 0,
        events: 10,
    });
    model.take(Step::End);
    let decision = model.ask(0, 40, 0, false);
    assert_eq!((decision.give_back, decision.given), (20, 40));
    assert_eq!(model.quota.grants[1].newly_counted, 10);
    assert_eq!(model.ask(0, 0, 0, false).give_back, 0);
    assert_eq!(model.held(), 40);
}

#[test]
fn without_the_feature_all_leases_are_revoked() {
    let mut model = Model::new(100);
    model.ask(0, 30, 0, false);
    model.quota.is_allowed = false;
    let decision = model.ask(0, 5, 5, false);
    assert_eq!((decision.given, decision.give_back), (0, 30));
    assert!(!decision.is_allowed);
}
