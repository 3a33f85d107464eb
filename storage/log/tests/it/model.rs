//! Random operations against a model: with any crashes, faults and full disks, synced frames are
//! there, all frames are as they were appended, and a frame that was read once stays.

use crate::support::{OwnedSection, borrowed, open, read_from, sections, try_open};
use millrace_log::testing::{Fault, FaultKind, MemoryFs};
use millrace_log::{AppendError, CheckpointError, Log, LogHandle, Position, Reader, Recovery};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Counts of a run, printed at its end.
#[derive(Default, Debug)]
struct RunStats {
    operations: Cell<u64>,
    crashes: Cell<u64>,
    restarts: Cell<u64>,
    poisoned: Cell<u64>,
    failed_starts: Cell<u64>,
    refused: Cell<u64>,
    calls: Cell<u64>,
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// Step of a case.
#[derive(Clone, Debug)]
enum Operation {
    Append { seed: u64, blocks_bytes: usize },
    Sync,
    Read,
    ReadAll,
    Release { share: u64 },
    StoreCheckpoint { seed: u64 },
    LoadCheckpoint,
    Crash { seed: u64 },
    Restart,
    Fault(Fault),
    Capacity { bytes: Option<u64> },
}

fn operation() -> impl Strategy<Value = Operation> {
    let kind = prop_oneof![Just(FaultKind::Io), Just(FaultKind::NoSpace)];
    let size = prop_oneof![8 => 0usize..600, 1 => 600usize..5000];
    prop_oneof![
        12 => (any::<u64>(), size).prop_map(|(seed, blocks_bytes)| Operation::Append { seed, blocks_bytes }),
        8 => Just(Operation::Sync),
        4 => Just(Operation::Read),
        1 => Just(Operation::ReadAll),
        3 => (0u64..=100).prop_map(|share| Operation::Release { share }),
        2 => any::<u64>().prop_map(|seed| Operation::StoreCheckpoint { seed }),
        1 => Just(Operation::LoadCheckpoint),
        2 => any::<u64>().prop_map(|seed| Operation::Crash { seed }),
        2 => Just(Operation::Restart),
        1 => (0u32..8, kind).prop_map(|(after, kind)| Operation::Fault(Fault { after, kind })),
        1 => (0u64..50_000).prop_map(|bytes| Operation::Capacity { bytes: Some(bytes) }),
        1 => Just(Operation::Capacity { bytes: None }),
    ]
}

/// Model of a log: its allowed contents.
#[derive(Default)]
struct Model {
    /// Frames that were appended and are not known to be lost, by position.
    frames: BTreeMap<Position, Vec<OwnedSection>>,
    /// Position below which frames must be there.
    synced: Position,
    /// Position below which frames may be gone.
    released: Position,
    /// All frames that were ever appended.
    appended: BTreeMap<Position, Vec<OwnedSection>>,
    /// Frame whose write failed: all of it may be there.
    failed: Option<Vec<OwnedSection>>,
    /// Positions where unsynced frames were lost with a later one kept.
    damage: BTreeSet<Position>,
    /// Checkpoints that may be there: more than one after a failed store.
    checkpoints: Vec<Option<Vec<u8>>>,
}

impl Model {
    /// Frames that must be there from a position on.
    fn kept(&self, from: Position) -> impl Iterator<Item = (&Position, &Vec<OwnedSection>)> {
        self.frames.range(from.min(self.synced)..self.synced)
    }
}

/// Machine that runs the log, with the model that it is compared with.
struct Machine<'a> {
    fs: MemoryFs,
    model: Model,
    process: Process,
    stats: &'a RunStats,
}

/// State that ends with a process.
struct Process {
    log: Log,
    handle: LogHandle,
    reader: Reader,
    poisoned: bool,
}

impl Process {
    fn new(log: Log, from: Position) -> Self {
        let handle = log.handle();
        Self {
            reader: handle.reader(from),
            log,
            handle,
            poisoned: false,
        }
    }
}

impl<'a> Machine<'a> {
    fn start(stats: &'a RunStats) -> Self {
        let fs = MemoryFs::new();
        let (log, recovery) = open(&fs);
        assert_eq!(recovery, Recovery::default());
        Self {
            fs,
            model: Model {
                checkpoints: vec![None],
                ..Model::default()
            },
            process: Process::new(log, Position::FIRST),
            stats,
        }
    }

    fn run(mut self, operation: &Operation) -> Self {
        count(&self.stats.operations);
        match *operation {
            Operation::Append { seed, blocks_bytes } => self.append(seed, blocks_bytes),
            Operation::Sync => self.sync(),
            Operation::Read => self.read(),
            Operation::ReadAll => self.read_all(),
            Operation::Release { share } => self.release(share),
            Operation::StoreCheckpoint { seed } => self.store_checkpoint(seed),
            Operation::LoadCheckpoint => self.load_checkpoint(),
            Operation::Crash { seed } => return self.reopen(Some(seed)),
            Operation::Restart => return self.reopen(None),
            Operation::Fault(fault) => self.fs.set_fault(Some(fault)),
            Operation::Capacity { bytes } => self.fs.set_capacity(bytes),
        }
        self
    }

    fn append(&mut self, seed: u64, blocks_bytes: usize) {
        let owned = sections(seed, blocks_bytes);
        let used_before = self.process.handle.usage().bytes_used;
        match self.process.log.append(&borrowed(&owned)) {
            Ok(position) => {
                assert!(!self.process.poisoned, "a poisoned log appends nothing");
                let before = self.model.appended.insert(position, owned.clone());
                assert!(before.is_none(), "{position} is used twice");
                self.model.frames.insert(position, owned);
            }
            Err(AppendError::Poisoned(_)) => {
                if !self.process.poisoned {
                    self.model.failed = Some(owned);
                }
                self.process.poisoned = true;
            }
            Err(
                AppendError::Full { .. }
                | AppendError::DiskFull { .. }
                | AppendError::NoReserve { .. },
            ) => {
                assert!(!self.process.poisoned);
                assert!(self.process.handle.usage().bytes_used <= used_before + 64);
                count(&self.stats.refused);
            }
            Err(error) => panic!("{error}"),
        }
        // Rolling to a new segment syncs the one before.
        self.model.synced = self.model.synced.max(self.process.handle.synced());
    }

    fn sync(&mut self) {
        match self.process.log.sync() {
            Ok(position) => {
                assert!(!self.process.poisoned, "a poisoned log syncs nothing");
                assert_eq!(position, self.process.handle.synced());
                self.model.synced = position;
            }
            Err(_) => self.process.poisoned = true,
        }
        assert_eq!(
            self.process.handle.failure().is_some(),
            self.process.poisoned
        );
    }

    /// Asserts that the next frame a reader sees is the next one synced.
    fn read(&mut self) {
        let from = self
            .process
            .reader
            .position()
            .max(self.process.handle.start());
        let expected = self.model.kept(from).next();
        let frame = self.process.reader.next().unwrap();
        assert_eq!(
            frame.as_ref().map(|frame| frame.position),
            expected.map(|(&position, _)| position)
        );
        if let (Some(frame), Some((_, expected))) = (frame, expected) {
            for (section, (header, blocks)) in frame.sections.iter().zip(expected) {
                assert_eq!(section.header, *header);
                assert_eq!(self.process.reader.read_blocks(section).unwrap(), *blocks);
            }
        }
    }

    fn read_all(&mut self) {
        let found = read_from(&self.process.handle, Position::FIRST);
        assert!(found.is_sorted_by_key(|(frame, _)| (frame.sequence, frame.position)));
        let start = self.process.handle.start();
        let kept = self.model.kept(start);
        let found = found.iter().map(|(frame, owned)| (&frame.position, owned));
        assert!(found.eq(kept), "readers see exactly what is synced");
    }

    fn release(&mut self, share: u64) {
        let count = self.model.frames.len() as u64 * share / 100;
        let Some((&below, _)) = self.model.frames.iter().nth(count as usize) else {
            return;
        };
        match self.process.handle.release(below) {
            Ok(_) => assert!(!self.process.poisoned),
            Err(_) => self.process.poisoned = true,
        }
        self.model.released = self.model.released.max(below.min(self.model.synced));
        let first = self.model.kept(self.model.released).next();
        let start = self.process.handle.start();
        assert!(first.is_none_or(|(&position, _)| start <= position));
    }

    fn store_checkpoint(&mut self, seed: u64) {
        let bytes = seed.to_le_bytes()[..(seed % 9) as usize].to_vec();
        match self.process.handle.store_checkpoint(&bytes) {
            Ok(()) => {
                assert!(!self.process.poisoned);
                self.model.checkpoints = vec![Some(bytes)];
            }
            Err(CheckpointError::DiskFull) => assert!(!self.process.poisoned),
            Err(CheckpointError::Poisoned(_)) => {
                self.process.poisoned = true;
                self.model.checkpoints.push(Some(bytes));
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn load_checkpoint(&mut self) {
        let found = self.process.handle.load_checkpoint().unwrap();
        assert!(self.model.checkpoints.contains(&found));
    }

    /// Ends the process, with a seed also the machine; starts it again.
    fn reopen(mut self, crash: Option<u64>) -> Self {
        if self.process.poisoned {
            count(&self.stats.poisoned);
        }
        drop(self.process);
        count(&self.stats.restarts);
        if let Some(seed) = crash {
            count(&self.stats.crashes);
            self.fs.crash(seed);
        }
        let (log, recovery) = try_open(&self.fs).unwrap_or_else(|_| {
            count(&self.stats.failed_starts);
            // The power is cut once more, halfway through a start.
            if let Some(seed) = crash {
                count(&self.stats.crashes);
                self.fs.crash(seed ^ 1);
            }
            // Failed by a fault or on a full disk; without, the start must succeed.
            self.fs.set_fault(None);
            self.fs.set_capacity(None);
            open(&self.fs)
        });
        self.process = Process::new(log, self.model.released);
        self.check_recovery(&recovery);
        self
    }

    fn check_recovery(&mut self, recovery: &Recovery) {
        let model = &mut self.model;
        // Frames appended without a sync in between may be lost in any order. Damage found once is
        // reported again at every start.
        let quarantined = recovery.quarantined.iter().map(|q| q.start);
        for position in quarantined.chain(recovery.gaps.iter().map(|gap| gap.after)) {
            let known = model.damage.contains(&position);
            // Half a release, too, leaves holes where names are not kept in order.
            let needed = model.released..model.synced;
            assert!(
                known || !needed.contains(&position),
                "{position}: synced and gone"
            );
            model.damage.insert(position);
        }
        let found = read_from(&self.process.handle, Position::FIRST);
        assert_eq!(recovery.frames, found.len() as u64);
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|(frame, owned)| (frame.position, owned))
            .collect();
        for (position, owned) in &found {
            // Released segments may come back, with the same frames.
            let known = model.appended.get(position).or(model.failed.as_ref());
            assert!(known == Some(owned), "{position} is what was appended");
            model.appended.insert(*position, owned.clone());
        }
        for position in model.kept(model.released) {
            assert!(found.contains_key(position.0), "{} is lost", position.0);
        }
        model.failed = None;
        model.frames = found;
        model.synced = self.process.handle.synced();
        let checkpoint = self.process.handle.load_checkpoint().unwrap();
        assert!(model.checkpoints.contains(&checkpoint));
        model.checkpoints = vec![checkpoint];
    }
}

/// Returns a number that the environment may set.
#[expect(clippy::disallowed_methods, reason = "a test's own setting")]
pub fn from_env(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |number| number.parse().unwrap())
}

/// Runs 350 cases of at least 60 operations unless `MILLRACE_LOG_CASES` is set; from the seed 1
/// unless `MILLRACE_LOG_SEED` is.
#[test]
fn synced_frames_survive_all_faults_and_crashes() {
    let config = ProptestConfig {
        cases: from_env("MILLRACE_LOG_CASES", 350) as u32,
        rng_seed: RngSeed::Fixed(from_env("MILLRACE_LOG_SEED", 1)),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let stats = RunStats::default();
    let cases = config.cases;
    let operations = prop::collection::vec(operation(), 60..120);
    let result = TestRunner::new(config).run(&operations, |operations| {
        run(&operations, &stats);
        Ok(())
    });
    println!("{cases} cases: {stats:?}");
    result.unwrap();
    assert!(stats.operations.get() >= 20_000, "{stats:?}");
}

fn run(operations: &[Operation], stats: &RunStats) {
    let mut machine = Machine::start(stats);
    for operation in operations {
        machine = machine.run(operation);
    }
    machine.fs.set_fault(None);
    machine.fs.set_capacity(None);
    machine = machine.reopen(Some(7));
    machine.read_all();
    stats.calls.set(stats.calls.get() + machine.fs.calls());
}
