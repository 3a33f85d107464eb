//! Nodes that ask, use, crash and start again, against a model that knows what came in.

use super::*;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;
/// Time that a node uses its leases without having been heard, and time that it counts as live.
const USES: i64 = 10 * SECOND;
const LIVES: i64 = 20 * SECOND;
const NODES: [&str; 3] = ["a", "b", "c"];
const RATE: i64 = 600;

/// Node of the model; its log holds the truth.
#[derive(Clone, Debug, Default)]
struct Node {
    logged: i64,
    available: i64,
    /// Events that it was given and neither counted nor gave back, as it knows.
    held: i64,
    reported: i64,
    /// Time of its last answer.
    heard_at: i64,
    /// Time of its last report.
    seen_at: i64,
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
    Use {
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
    let node = || 0..NODES.len();
    let step = prop_oneof![
        6 => (node(), 0..500_i64, 0..200_i64, prop::bool::weighted(0.1)).prop_map(
            |(node, needed, stock, is_lost)| Step::Ask { node, needed, stock, is_lost }
        ),
        6 => (node(), 0..300_i64).prop_map(|(node, events)| Step::Use { node, events }),
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
    now: i64,
    uses: Vec<(i64, i64)>,
}

impl Model {
    fn new(default_quota: i64) -> Self {
        Self {
            quota: ProjectQuota {
                grants: vec![grant(DEFAULT_QUOTA, default_quota)],
                leases: Vec::new(),
                bucket: Bucket::FULL,
                revoke_request: None,
                is_allowed: true,
            },
            totals: vec![default_quota],
            nodes: vec![Node::default(); NODES.len()],
            now: 0,
            uses: Vec::new(),
        }
    }

    fn ask(&mut self, at: usize, needed: i64, stock: i64, is_lost: bool) -> LeaseDecision {
        let (name, now) = (NODES[at], self.now);
        for lease in &mut self.quota.leases {
            let index = NODES.iter().position(|name| *name == lease.node).unwrap();
            lease.is_live = now - self.nodes[index].seen_at < LIVES;
        }
        let node = &mut self.nodes[at];
        if !node.is_up {
            // The node starts: its leases are gone, the events of its log are counted.
            (node.available, node.held, node.is_up) = (0, 0, true);
        } else {
            node.held -= node.logged - node.reported;
            if now - node.heard_at >= USES {
                // The node gave up what it held.
                node.held -= node.available;
                node.available = 0;
            }
        }
        node.reported = node.logged;
        node.seen_at = now;
        let lease_report = LeaseReport {
            counted: node.logged,
            held: node.held,
            unused_micros: now - node.used_at,
            needed,
            needed_least: needed,
            stock,
        };
        let decision = self.quota.settle(name, now, lease_report, RATE);
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
            Step::Use { node, events } => {
                let node = &mut self.nodes[node];
                let may = node.is_up && self.now - node.heard_at < USES;
                if may && node.available >= events {
                    node.available -= events;
                    node.logged += events;
                    node.used_at = self.now;
                    self.uses.push((self.now, events));
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

    fn check(&self) -> Result<(), TestCaseError> {
        for (grant, total) in self.quota.grants.iter().zip(&self.totals) {
            let leases = self.quota.leases.iter();
            let of_grant: Vec<&Lease> = leases.filter(|it| it.grant_id == grant.id).collect();
            let counted: i64 = of_grant.iter().map(|it| it.counted).sum();
            prop_assert_eq!(counted, grant.newly_counted);
            prop_assert_eq!(counted + grant.left, *total);
            let held: i64 = of_grant.iter().map(|it| it.held).sum();
            prop_assert!(counted + held <= *total, "{grant:?} holds {held}");
        }
        for (node, name) in self.nodes.iter().zip(NODES) {
            let held: i64 = self.quota.of(name).map(|it| it.held).sum();
            let used = node.logged - node.reported;
            prop_assert!(used <= held, "{name} used {used} of {held}");
        }
        Ok(())
    }

    /// Checks that no time has more events than one minute's and its own.
    fn check_rate(&self) -> Result<(), TestCaseError> {
        for (first, (from, _)) in self.uses.iter().enumerate() {
            let mut sum = 0;
            for (at, events) in &self.uses[first..] {
                sum += events;
                let allowed = RATE * 60 * SECOND + (at - from) * RATE;
                prop_assert!(sum * 60 * SECOND <= allowed, "{sum} in {}", at - from);
            }
        }
        Ok(())
    }
}

fn grant(id: Uuid, left: i64) -> Grant {
    Grant {
        id,
        per_minute: RATE,
        left,
        is_open: true,
        newly_counted: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn volume_and_rate_are_never_exceeded_and_every_event_is_counted(
        default_quota in 0..5_000_i64,
        steps in steps(),
    ) {
        let mut model = Model::new(default_quota);
        for step in steps {
            model.take(step);
            model.check()?;
        }
        model.check_rate()?;
        // All nodes start again: withheld events are available again, to the last one.
        for node in &mut model.nodes {
            node.is_up = false;
        }
        for node in 0..NODES.len() {
            model.ask(node, 0, 0, false);
        }
        model.check()?;
        let logged: i64 = model.nodes.iter().map(|node| node.logged).sum();
        let counted: i64 = model.quota.grants.iter().map(|it| it.newly_counted).sum();
        prop_assert_eq!(logged, counted);
        prop_assert_eq!(model.quota.held(|_| true), 0);
        let open = model.quota.grants.iter().filter(|it| it.is_open);
        let left: i64 = open.map(|it| it.left.max(0)).sum();
        model.now += 60 * SECOND;
        let wanted = left.min(RATE);
        prop_assert_eq!(model.ask(0, wanted, 0, false).given, wanted);
        prop_assert_eq!(model.ask(1, left + 1, 0, false).given, 0);
    }
}

#[test]
fn a_stock_is_leased_only_where_there_is_plenty() {
    let table = [
        // needed, least, stock, left, given
        (10, 10, 5, 100, 15),
        (10, 10, 5, 19, 10),
        (10, 4, 5, 7, 7),
        (10, 8, 5, 7, 0),
        (0, 0, 5, 10, 5),
        (0, 0, 5, 9, 0),
    ];
    for (needed, needed_least, stock, left, given) in table {
        let mut model = Model::new(left);
        let lease_report = LeaseReport {
            needed,
            needed_least,
            stock,
            ..LeaseReport::default()
        };
        let decision = model.quota.settle("a", 0, lease_report, RATE);
        assert_eq!(decision.given, given, "{lease_report:?} of {left}");
        assert_eq!(decision.free, left - given);
    }
}

#[test]
fn events_that_another_node_needs_are_revoked_until_it_has_them() {
    let mut model = Model::new(100);
    assert_eq!(model.ask(0, 60, 0, false).given, 60);
    let refused = model.ask(1, 50, 0, false);
    assert_eq!(
        (refused.given, refused.free, refused.held_elsewhere),
        (0, 40, 60)
    );
    let asked_back = model.ask(0, 0, 10, false);
    assert!(asked_back.is_wanted);
    assert_eq!(asked_back.given, 0, "no stock while another needs it");
    model.take(Step::Return { node: 0 });
    model.ask(0, 0, 0, false);
    assert_eq!(model.ask(1, 50, 0, false).given, 50);
    assert!(!model.ask(0, 0, 0, false).is_wanted);
}

#[test]
fn leases_of_an_ended_approval_are_revoked_and_their_used_events_counted() {
    let mut model = Model::new(100);
    model.take(Step::Approve { total: 50 });
    assert_eq!(model.ask(0, 30, 0, false).given, 30);
    model.take(Step::Use {
        node: 0,
        events: 10,
    });
    model.take(Step::End);
    let decision = model.ask(0, 0, 0, false);
    assert_eq!(decision.give_back, 20);
    assert_eq!(model.quota.grants[1].newly_counted, 10);
    model.ask(0, 0, 0, false);
    assert_eq!(model.quota.held(|_| true), 0);
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
