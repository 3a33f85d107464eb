//! Nodes that ask, use, crash and start again, beside a world that knows what came in.

use super::*;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;
/// How long a node uses what it holds without having been heard, and how long it counts as live.
const USES: i64 = 10 * SECOND;
const LIVES: i64 = 20 * SECOND;
const NODES: [&str; 3] = ["a", "b", "c"];
const RATE: i64 = 600;

/// A node: what its log holds is the truth.
#[derive(Clone, Debug, Default)]
struct Node {
    logged: i64,
    available: i64,
    /// What it was given and neither counted nor gave back, as it knows.
    held: i64,
    reported: i64,
    /// When it last got an answer.
    heard_at: i64,
    /// When it was last heard.
    seen_at: i64,
    /// When events last came in.
    used_at: i64,
    is_up: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A node says where it stands; its answer may be lost.
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
    /// The operator approves so many more; or what is approved is ended.
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

struct World {
    account: Account,
    totals: Vec<i64>,
    nodes: Vec<Node>,
    now: i64,
    uses: Vec<(i64, i64)>,
}

impl World {
    fn new(unasked: i64) -> Self {
        Self {
            account: Account {
                grants: vec![grant(UNASKED, unasked)],
                slices: Vec::new(),
                bucket: Bucket::FULL,
                wish: None,
                is_allowed: true,
            },
            totals: vec![unasked],
            nodes: vec![Node::default(); NODES.len()],
            now: 0,
            uses: Vec::new(),
        }
    }

    fn ask(&mut self, at: usize, needed: i64, stock: i64, is_lost: bool) -> SliceDecision {
        let (name, now) = (NODES[at], self.now);
        for slice in &mut self.account.slices {
            let index = NODES.iter().position(|name| *name == slice.node).unwrap();
            slice.is_live = now - self.nodes[index].seen_at < LIVES;
        }
        let node = &mut self.nodes[at];
        if !node.is_up {
            // It starts: what it held is gone, what its log has is counted.
            (node.available, node.held, node.is_up) = (0, 0, true);
        } else {
            node.held -= node.logged - node.reported;
            if now - node.heard_at >= USES {
                // It gave up what it held.
                node.held -= node.available;
                node.available = 0;
            }
        }
        node.reported = node.logged;
        node.seen_at = now;
        let stand = SliceStand {
            counted: node.logged,
            held: node.held,
            unused_micros: now - node.used_at,
            needed,
            needed_least: needed,
            stock,
        };
        let decision = self.account.settle(name, now, stand, RATE);
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
                self.account.grants[0].is_open = false;
                let id = Uuid::from_u128(self.totals.len() as u128);
                self.account.grants.push(grant(id, total));
                self.totals.push(total);
            }
            Step::End => {
                for grant in &mut self.account.grants {
                    grant.is_open = grant.id == UNASKED;
                }
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (grant, total) in self.account.grants.iter().zip(&self.totals) {
            let slices = self.account.slices.iter();
            let of_grant: Vec<&Slice> = slices.filter(|it| it.grant_id == grant.id).collect();
            let counted: i64 = of_grant.iter().map(|it| it.counted).sum();
            prop_assert_eq!(counted, grant.newly_counted);
            prop_assert_eq!(counted + grant.left, *total);
            let held: i64 = of_grant.iter().map(|it| it.held).sum();
            prop_assert!(counted + held <= *total, "{grant:?} holds {held}");
        }
        for (node, name) in self.nodes.iter().zip(NODES) {
            let held: i64 = self.account.of(name).map(|it| it.held).sum();
            let used = node.logged - node.reported;
            prop_assert!(used <= held, "{name} used {used} of {held}");
        }
        Ok(())
    }

    /// No time has more events than a minute's and its own.
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
    fn no_volume_and_no_rate_is_ever_exceeded_and_nothing_that_came_is_uncounted(
        unasked in 0..5_000_i64,
        steps in steps(),
    ) {
        let mut world = World::new(unasked);
        for step in steps {
            world.take(step);
            world.check()?;
        }
        world.check_rate()?;
        // All start again: what was withheld comes back, to the last event.
        for node in &mut world.nodes {
            node.is_up = false;
        }
        for node in 0..NODES.len() {
            world.ask(node, 0, 0, false);
        }
        world.check()?;
        let logged: i64 = world.nodes.iter().map(|node| node.logged).sum();
        let counted: i64 = world.account.grants.iter().map(|it| it.newly_counted).sum();
        prop_assert_eq!(logged, counted);
        prop_assert_eq!(world.account.held(|_| true), 0);
        let open = world.account.grants.iter().filter(|it| it.is_open);
        let left: i64 = open.map(|it| it.left.max(0)).sum();
        world.now += 60 * SECOND;
        let wanted = left.min(RATE);
        prop_assert_eq!(world.ask(0, wanted, 0, false).given, wanted);
        prop_assert_eq!(world.ask(1, left + 1, 0, false).given, 0);
    }
}

#[test]
fn a_stock_is_given_only_where_there_is_plenty() {
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
        let mut world = World::new(left);
        let stand = SliceStand {
            needed,
            needed_least,
            stock,
            ..SliceStand::default()
        };
        let decision = world.account.settle("a", 0, stand, RATE);
        assert_eq!(decision.given, given, "{stand:?} of {left}");
        assert_eq!(decision.free, left - given);
    }
}

#[test]
fn what_another_node_needs_is_asked_back_until_it_has_it() {
    let mut world = World::new(100);
    assert_eq!(world.ask(0, 60, 0, false).given, 60);
    let refused = world.ask(1, 50, 0, false);
    assert_eq!(
        (refused.given, refused.free, refused.held_elsewhere),
        (0, 40, 60)
    );
    let asked_back = world.ask(0, 0, 10, false);
    assert!(asked_back.is_wanted);
    assert_eq!(asked_back.given, 0, "no stock while another needs it");
    world.take(Step::Return { node: 0 });
    world.ask(0, 0, 0, false);
    assert_eq!(world.ask(1, 50, 0, false).given, 50);
    assert!(!world.ask(0, 0, 0, false).is_wanted);
}

#[test]
fn what_was_given_under_an_approval_that_ended_is_taken_back_and_counted_there() {
    let mut world = World::new(100);
    world.take(Step::Approve { total: 50 });
    assert_eq!(world.ask(0, 30, 0, false).given, 30);
    world.take(Step::Use {
        node: 0,
        events: 10,
    });
    world.take(Step::End);
    let decision = world.ask(0, 0, 0, false);
    assert_eq!(decision.give_back, 20);
    assert_eq!(world.account.grants[1].newly_counted, 10);
    world.ask(0, 0, 0, false);
    assert_eq!(world.account.held(|_| true), 0);
}

#[test]
fn without_the_feature_all_is_taken_back() {
    let mut world = World::new(100);
    world.ask(0, 30, 0, false);
    world.account.is_allowed = false;
    let decision = world.ask(0, 5, 5, false);
    assert_eq!((decision.given, decision.give_back), (0, 30));
    assert!(!decision.is_allowed);
}
