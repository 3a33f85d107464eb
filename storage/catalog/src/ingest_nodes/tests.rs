//! Property test: no export ever passes a row. Nodes start, ship, die, stop and come back in any
//! order, with clocks that are wrong, beside a scheduler that exports as far as it may.

use super::NodeState::{Running, Starting, Stopped};
use super::{lowest_known, nodes, passed_by_all};
use crate::time::UtcTime;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, prop_assert, proptest};

const NODES: usize = 3;

/// Event of a node, by its number. Registering is two statements, and anything may happen between
/// them.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The process starts, or runs the next statement of its start.
    Start(usize),
    /// It takes a request, by a clock that shows this.
    Take(usize, i64),
    /// Everything in its log ships, and it publishes its watermark.
    Publish(usize, i64),
    /// Its person updates ship, and it publishes their watermark.
    PublishUpdates(usize, i64),
    /// It is killed; its log stays.
    Kill(usize),
    /// It shuts down cleanly.
    Stop(usize),
    /// The scheduler exports as far as it may.
    Export,
    /// Persons are applied as far as they may be.
    Apply,
}

#[derive(Debug, Default)]
struct Node {
    row: Option<nodes::Model>,
    /// Log: arrival times of rows that are not shipped.
    unshipped: Vec<i64>,
    /// Arrival times of person updates among them.
    unshipped_updates: Vec<i64>,
    life: Life,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Life {
    #[default]
    Dead,
    /// The catalog has it; it does not know its `min_created_at` yet.
    Registering,
    Lives {
        min_created_at: i64,
    },
}

struct Model {
    nodes: Vec<Node>,
    /// Time up to which exports have gone.
    exported: i64,
    /// Time up to which persons were applied.
    applied: i64,
    fault: Fault,
}

/// Fault that is injected, to show that the test can fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    NoMinimum,
    /// `min_created_at` is computed from the watermarks of all rows alone.
    MinimumOfAllRows,
}

impl Model {
    fn new(fault: Fault) -> Self {
        Self {
            nodes: (0..NODES).map(|_| Node::default()).collect(),
            exported: i64::MIN,
            applied: i64::MIN,
            fault,
        }
    }

    fn rows(&self) -> Vec<nodes::Model> {
        self.nodes
            .iter()
            .filter_map(|node| node.row.clone())
            .collect()
    }

    /// Runs a step. An error if an export has passed a row, or a row comes where exports have been.
    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Start(number) => self.start(number),
            Step::Take(number, clock) => self.take(number, clock)?,
            Step::Publish(number, clock) => self.publish(number, clock),
            Step::PublishUpdates(number, clock) => self.publish_updates(number, clock),
            Step::Kill(number) => self.nodes[number].life = Life::Dead,
            Step::Stop(number) => self.stop(number),
            Step::Export => self.export()?,
            Step::Apply => self.apply()?,
        }
        Ok(())
    }

    fn start(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        match node.life {
            Life::Lives { .. } => {}
            Life::Dead => {
                let row = node.row.get_or_insert_with(|| nodes::Model {
                    name: number.to_string(),
                    host: String::new(),
                    state: Starting,
                    watermark: None,
                    updates_watermark: None,
                    published_at: UtcTime(0),
                    started_at: UtcTime(0),
                    start_count: 0,
                    start_id: String::new(),
                });
                if row.state == Stopped {
                    row.state = Starting;
                }
                node.life = Life::Registering;
            }
            Life::Registering => {
                let of: fn(&nodes::Model) -> Option<UtcTime> = match self.fault {
                    Fault::MinimumOfAllRows => |row| row.watermark,
                    Fault::None | Fault::NoMinimum => nodes::Model::updates_passed,
                };
                let own = node.row.as_ref().and_then(of);
                let min_created_at = own.max(lowest_known(&self.rows(), of));
                let min_created_at = min_created_at.filter(|_| self.fault != Fault::NoMinimum);
                let min_created_at =
                    min_created_at.map_or(i64::MIN, |min_created_at| min_created_at.0);
                self.nodes[number].life = Life::Lives { min_created_at };
            }
        }
    }

    fn take(&mut self, number: usize, clock: i64) -> Result<(), String> {
        let node = &mut self.nodes[number];
        let Life::Lives { min_created_at } = node.life else {
            return Ok(());
        };
        let created_at = clock.max(min_created_at);
        node.unshipped.push(created_at);
        node.unshipped_updates.push(created_at);
        if created_at < self.exported.max(self.applied) {
            return Err(format!(
                "node {number} makes a row of {created_at}, exports are at {}, persons at {}",
                self.exported, self.applied
            ));
        }
        Ok(())
    }

    fn publish(&mut self, number: usize, clock: i64) {
        let node = &mut self.nodes[number];
        let (Life::Lives { min_created_at }, Some(row)) = (&mut node.life, &mut node.row) else {
            return;
        };
        *min_created_at = clock.max(*min_created_at);
        node.unshipped.clear();
        node.unshipped_updates.clear();
        row.state = Running;
        row.watermark = Some(UtcTime(*min_created_at));
    }

    fn publish_updates(&mut self, number: usize, clock: i64) {
        let node = &mut self.nodes[number];
        let (Life::Lives { min_created_at }, Some(row)) = (&mut node.life, &mut node.row) else {
            return;
        };
        // None is published before that of all rows.
        if row.state == Running {
            *min_created_at = clock.max(*min_created_at);
            node.unshipped_updates.clear();
            row.updates_watermark = Some(UtcTime(*min_created_at));
        }
    }

    fn stop(&mut self, number: usize) {
        self.publish(number, i64::MIN);
        let node = &mut self.nodes[number];
        if let (Life::Lives { .. }, Some(row)) = (node.life, &mut node.row) {
            row.state = Stopped;
            node.life = Life::Dead;
        }
    }

    fn export(&mut self) -> Result<(), String> {
        let Some(UtcTime(to)) = passed_by_all(&self.rows(), |row| row.watermark) else {
            return Ok(());
        };
        self.exported = self.exported.max(to);
        self.check(self.exported, |node| &node.unshipped)
    }

    fn apply(&mut self) -> Result<(), String> {
        let passed = passed_by_all(&self.rows(), nodes::Model::updates_passed);
        let Some(UtcTime(to)) = passed else {
            return Ok(());
        };
        self.applied = self.applied.max(to);
        self.check(self.applied, |node| &node.unshipped_updates)
    }

    /// Returns an error if rows before a time are not shipped.
    fn check(&self, to: i64, rows: impl Fn(&Node) -> &Vec<i64>) -> Result<(), String> {
        let mut rows = self.nodes.iter().flat_map(rows);
        match rows.find(|at| **at < to) {
            Some(at) => Err(format!("a row of {at} was not there at {to}")),
            None => Ok(()),
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = 0..NODES;
    let clock = 0..50_i64;
    let step = prop_oneof![
        3 => node.clone().prop_map(Step::Start),
        4 => (node.clone(), clock.clone()).prop_map(|(node, clock)| Step::Take(node, clock)),
        4 => (node.clone(), clock.clone()).prop_map(|(node, clock)| Step::Publish(node, clock)),
        4 => (node.clone(), clock).prop_map(|(node, clock)| Step::PublishUpdates(node, clock)),
        1 => node.clone().prop_map(Step::Kill),
        1 => node.prop_map(Step::Stop),
        3 => Just(Step::Export),
        3 => Just(Step::Apply),
    ];
    collection::vec(step, 1..160)
}

proptest! {
    #[test]
    fn no_export_passes_a_row_in_any_sequence_of_steps(steps in steps()) {
        let mut model = Model::new(Fault::None);
        for step in steps {
            let stepped = model.step(step);
            prop_assert!(stepped.is_ok(), "{step:?}: {stepped:?}");
        }
    }
}

#[test]
fn without_min_created_at_a_slow_clock_writes_into_exported_windows() {
    let mut model = Model::new(Fault::NoMinimum);
    for step in [
        Step::Start(0),
        Step::Start(0),
        Step::Publish(0, 30),
        Step::Export,
        Step::Start(1),
        Step::Start(1),
    ] {
        model.step(step).unwrap();
    }
    model.step(Step::Take(1, 20)).unwrap_err();
}

#[test]
fn a_minimum_of_exports_alone_lets_updates_come_where_persons_were_applied() {
    for (fault, is_sound) in [(Fault::None, true), (Fault::MinimumOfAllRows, false)] {
        let mut model = Model::new(fault);
        for step in [
            Step::Start(0),
            Step::Start(0),
            Step::Publish(0, 10),
            Step::PublishUpdates(0, 30),
            Step::Apply,
            Step::Start(1),
            Step::Start(1),
        ] {
            model.step(step).unwrap();
        }
        assert_eq!(model.step(Step::Take(1, 20)).is_ok(), is_sound, "{fault:?}");
    }
}

#[test]
fn exports_run_up_to_the_lowest_watermark_of_the_nodes_that_count() {
    let node = |state, watermark: Option<i64>| nodes::Model {
        name: String::new(),
        host: String::new(),
        state,
        watermark: watermark.map(UtcTime),
        updates_watermark: None,
        published_at: UtcTime(0),
        started_at: UtcTime(0),
        start_count: 0,
        start_id: String::new(),
    };
    let table: [(&[_], _); 7] = [
        (&[], None),
        (&[(Starting, None)], None),
        (&[(Running, Some(7))], Some(7)),
        (&[(Running, Some(7)), (Running, Some(5))], Some(5)),
        (&[(Running, Some(7)), (Stopped, Some(5))], Some(7)),
        (&[(Running, Some(7)), (Starting, Some(9))], None),
        (&[(Stopped, Some(7)), (Stopped, Some(5))], Some(7)),
    ];
    for (nodes, expected) in table {
        let nodes: Vec<_> = nodes.iter().map(|(state, at)| node(*state, *at)).collect();
        let passed = passed_by_all(&nodes, |node| node.watermark);
        assert_eq!(passed, expected.map(UtcTime), "{nodes:?}");
    }
}
