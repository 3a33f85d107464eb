//! How long, where, on which CPUs; and one run of the generator.

use super::Options;
use super::server::{Server, Store};
use crate::plan::Plan;
use crate::run::{Progress, Stop, run_observed};
use crate::summary::Summary;
use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::time::Duration;
use tempfile::TempDir;

/// What the cases share.
pub struct Bench<'a> {
    /// What was asked for.
    pub options: &'a Options,
    /// Who gets which CPU.
    pub cpus: Cpus,
    /// How long and how often.
    pub effort: Effort,
    stop: &'a Stop,
    say: &'a mut dyn FnMut(&str),
}

/// How long and how often things are measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How often each contestant runs.
    pub rounds: usize,
    /// Unmeasured time before each run.
    pub warm_up: Duration,
    /// Length of a run.
    pub window: Duration,
    /// Events that are followed until they can be queried.
    pub shipped_events: u64,
    /// Length of the soak and of the flood.
    pub soak: Duration,
    /// Rows that are exported at once.
    pub exported_rows: u64,
    /// How often.
    pub export_rounds: usize,
}

/// The CPUs that we may use: servers get the first, the generator the rest.
#[derive(Clone, Debug)]
pub struct Cpus(Vec<usize>);

/// CPUs beside a server's when an engine runs, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BesideEngine {
    /// The generator's.
    pub generator: Vec<usize>,
    /// The engine's, as `taskset` wants them.
    pub engine: String,
}

impl Effort {
    /// For figures. A window is short, as a log in memory takes up to 1 GB a second.
    const FULL: Self = Self {
        rounds: 5,
        warm_up: Duration::from_secs(1),
        window: Duration::from_secs(3),
        shipped_events: 4_000_000,
        soak: Duration::from_secs(600),
        exported_rows: 10_000_000,
        export_rounds: 3,
    };
    /// To see whether all works.
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
    /// Looks at the machine; lets this process and its children have as many files as may be.
    ///
    /// # Errors
    /// The system does not say which CPUs there are.
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

    /// Tells how far we are.
    pub fn say(&mut self, text: &str) {
        (self.say)(text);
    }

    /// An empty folder, removed when dropped.
    ///
    /// # Errors
    /// It cannot be made.
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

    /// A plan against a server, with this bench's times, one generator thread per CPU.
    #[must_use]
    pub fn plan(&self, server: &Server, server_cpus: usize) -> Plan {
        let mut plan = Plan::new(&server.url, &server.key);
        plan.warm_up = self.effort.warm_up;
        plan.duration = self.effort.window;
        plan.pin = self.cpus.generator(server_cpus);
        plan.threads = plan.pin.len();
        plan.server_pid = Some(server.pid());
        plan
    }

    /// Runs it.
    ///
    /// # Errors
    /// The run could not be made, or was interrupted.
    pub fn run(&self, plan: &Plan) -> Result<Summary> {
        self.run_observed(plan, &mut |_| {})
    }

    /// The same, observed about twenty times a second.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_observed(&self, plan: &Plan, observe: &mut dyn FnMut(&Progress)) -> Result<Summary> {
        let mut plan = plan.clone();
        plan.threads = plan.threads.min(plan.connections.into());
        let summary = run_observed(&plan, self.stop, observe)?;
        self.check()?;
        Ok(summary)
    }

    /// Says whether to go on.
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
        let set = sched_getaffinity(None).context("which CPUs may we use?")?;
        let cpus: Vec<_> = (0..CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .collect();
        ensure!(!cpus.is_empty(), "there is no CPU");
        Ok(Self(cpus))
    }

    /// The first `count`, as `taskset` wants them; fewer if there are fewer.
    #[must_use]
    pub fn server(&self, count: usize) -> String {
        list(self.0.get(..count).unwrap_or(&self.0))
    }

    /// The first, for what runs alone.
    #[must_use]
    pub fn first(&self) -> usize {
        self.0.first().copied().unwrap_or_default()
    }

    /// What `server` leaves; all if that is nothing, as on a machine with two.
    #[must_use]
    pub fn generator(&self, server: usize) -> Vec<usize> {
        match self.0.get(server..) {
            None | Some([]) => self.0.clone(),
            Some(rest) => rest.to_vec(),
        }
    }

    /// What `server` leaves, shared out between the generator and an engine; both get all of it
    /// if it is one CPU.
    #[must_use]
    pub fn beside_engine(&self, server: usize) -> BesideEngine {
        let rest = self.generator(server);
        let (generator, engine) = match rest.split_at(rest.len() / 2) {
            ([], all) => (all, all),
            halves => halves,
        };
        BesideEngine {
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
            let beside = cpus.beside_engine(server);
            let engine = engine.to_owned();
            assert_eq!(beside, BesideEngine { generator, engine }, "{cpus:?}");
        }
    }
}
