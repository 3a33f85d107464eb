//! Resources of the suite: times, folders and CPUs; and a run of the generator.

use super::options::Options;
use super::rounds::Rounds;
use super::store::Store;
use crate::plan::Plan;
use crate::run::{Progress, run_observed};
use crate::stop::Stop;
use crate::summary::Summary;
use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::time::Duration;
use tempfile::TempDir;

/// Shared state of the cases.
pub struct Bench<'a> {
    /// Options of the suite.
    pub options: &'a Options,
    /// Distribution of the CPUs.
    pub cpus: Cpus,
    /// Lengths and numbers of measurements.
    pub effort: Effort,
    stop: &'a Stop,
    say: &'a mut dyn FnMut(&str),
}

/// Lengths and numbers of measurements.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Number of runs of each contestant.
    pub rounds: usize,
    /// Length of the warm-up before each run.
    pub warm_up: Duration,
    /// Length of the window of a run.
    pub window: Duration,
    /// Number of events that are followed until they can be queried.
    pub shipped_events: u64,
    /// Length of the soak and of the flood.
    pub soak: Duration,
    /// Number of rows in one export.
    pub exported_rows: u64,
    /// Number of exports.
    pub export_rounds: usize,
}

/// CPUs available to this process: servers get the first, the generator the rest.
#[derive(Clone, Debug)]
pub struct Cpus(Vec<usize>);

/// Distribution of the remaining CPUs when an engine runs beside the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSplit {
    /// CPUs of the generator.
    pub generator: Vec<usize>,
    /// CPUs of the engine, as a `taskset` list.
    pub engine: String,
}

impl Effort {
    /// Effort of a full run. Windows are short, as a log in memory takes up to 1 GB a second.
    const FULL: Self = Self {
        rounds: 5,
        warm_up: Duration::from_secs(1),
        window: Duration::from_secs(3),
        shipped_events: 4_000_000,
        soak: Duration::from_secs(600),
        exported_rows: 10_000_000,
        export_rounds: 3,
    };
    /// Effort of a quick check that everything works.
    const QUICK: Self = Self {
        rounds: 1,
        warm_up: Duration::from_millis(200),
        window: Duration::from_millis(500),
        shipped_events: 300_000,
        soak: Duration::from_secs(6),
        exported_rows: 200_000,
        export_rounds: 1,
    };
}

impl<'a> Bench<'a> {
    /// Finds the CPUs and raises the limit of open files, for this process and its children.
    ///
    /// # Errors
    /// The system cannot tell which CPUs there are.
    pub fn new(options: &'a Options, stop: &'a Stop, say: &'a mut dyn FnMut(&str)) -> Result<Self> {
        let limit = getrlimit(Resource::Nofile);
        let most = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, most).context("cannot raise the limit of open files")?;
        let effort = if options.quick {
            Effort::QUICK
        } else {
            Effort::FULL
        };
        Ok(Self {
            options,
            cpus: Cpus::ours()?,
            effort: Effort {
                soak: options.soak.unwrap_or(effort.soak),
                ..effort
            },
            stop,
            say,
        })
    }

    /// Reports progress.
    pub fn say(&mut self, text: &str) {
        (self.say)(text);
    }

    /// Measures all rounds. `once` returns a round and what is said of it.
    ///
    /// # Errors
    /// A round could not be measured.
    pub fn rounds<T>(
        &mut self,
        label: &str,
        mut once: impl FnMut(&mut Self) -> Result<(T, String)>,
    ) -> Result<Rounds<T>> {
        let count = self.effort.rounds;
        let mut rounds = Rounds::new();
        for number in 1..=count {
            let (round, said) = once(self)?;
            self.say(&format!("  {label}round {number} of {count}{said}"));
            rounds.push(round);
        }
        Ok(rounds)
    }

    /// Creates an empty folder, removed when dropped.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn folder(&self, store: Store) -> Result<TempDir> {
        let dir = match store {
            Store::Memory => &self.options.memory_dir,
            Store::Disk => &self.options.disk_dir,
        };
        tempfile::Builder::new()
            .prefix("millrace-suite-")
            .tempdir_in(dir)
            .with_context(|| format!("cannot make a folder in {}", dir.display()))
    }

    /// Runs a plan.
    ///
    /// # Errors
    /// The run could not be made, or was interrupted.
    pub fn run(&self, plan: &Plan) -> Result<Summary> {
        self.run_observed(plan, &mut |_| {})
    }

    /// Runs a plan, observed about twenty times a second.
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_observed(&self, plan: &Plan, observe: &mut dyn FnMut(&Progress)) -> Result<Summary> {
        let mut plan = plan.clone();
        plan.threads = plan.threads.min(plan.connections.into());
        let summary = run_observed(&plan, self.stop, observe)?;
        self.check()?;
        Ok(summary)
    }

    /// Checks that the suite was not interrupted.
    ///
    /// # Errors
    /// The run was interrupted.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.stop.is_asked(), "interrupted");
        Ok(())
    }
}

impl Cpus {
    fn ours() -> Result<Self> {
        let set = sched_getaffinity(None).context("cannot read the available CPUs")?;
        let cpus: Vec<_> = (0..CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .collect();
        ensure!(!cpus.is_empty(), "there is no CPU");
        Ok(Self(cpus))
    }

    /// The first `count` CPUs as a `taskset` list; fewer if there are fewer.
    #[must_use]
    pub fn server(&self, count: usize) -> String {
        list(self.0.get(..count).unwrap_or(&self.0))
    }

    /// The first CPU, for a program that runs alone.
    #[must_use]
    pub fn first(&self) -> usize {
        self.0.first().copied().unwrap_or_default()
    }

    /// CPUs that the server leaves; all of them if it leaves none, as on a machine with two.
    #[must_use]
    pub fn generator(&self, server: usize) -> Vec<usize> {
        match self.0.get(server..) {
            None | Some([]) => self.0.clone(),
            Some(rest) => rest.to_vec(),
        }
    }

    /// CPUs that the server leaves, split between the generator and an engine; a single one is
    /// shared by both.
    #[must_use]
    pub fn split_with_engine(&self, server: usize) -> CpuSplit {
        let rest = self.generator(server);
        let (generator, engine) = match rest.split_at(rest.len() / 2) {
            ([], all) => (all, all),
            halves => halves,
        };
        CpuSplit {
            generator: generator.to_vec(),
            engine: list(engine),
        }
    }
}

fn list(cpus: &[usize]) -> String {
    let cpus: Vec<_> = cpus.iter().map(usize::to_string).collect();
    cpus.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_generator_share_cpus_only_when_they_must() {
        let two = Cpus(vec![0, 1]);
        let four = Cpus(vec![2, 3, 6, 7]);
        for (cpus, server, of_server, of_generator) in [
            (&two, 1, "0", vec![1]),
            (&two, 2, "0,1", vec![0, 1]),
            (&two, 3, "0,1", vec![0, 1]),
            (&four, 1, "2", vec![3, 6, 7]),
            (&four, 2, "2,3", vec![6, 7]),
        ] {
            assert_eq!(cpus.server(server), of_server);
            assert_eq!(cpus.generator(server), of_generator);
        }
    }
    #[test]
    fn an_engine_has_cpus_of_its_own_where_there_are_enough() {
        for (cpus, server, generator, engine) in [
            (&[0, 1][..], 1, vec![1], "1"),
            (&[0, 1, 2], 1, vec![1], "2"),
            (&[0, 1, 2, 3], 1, vec![1], "2,3"),
            (&[0, 1, 2, 3], 2, vec![2], "3"),
            (&[0], 1, vec![0], "0"),
        ] {
            let cpus = Cpus(cpus.to_vec());
            let beside = cpus.split_with_engine(server);
            let engine = engine.to_owned();
            assert_eq!(beside, CpuSplit { generator, engine }, "{cpus:?}");
        }
    }
}
