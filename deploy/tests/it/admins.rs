//! Several `millrace admin` that share a catalog in PostgreSQL. One of them leads: it runs what is
//! run by one process at a time, until it is killed.

use crate::server::{Server, eventually};
use millrace_catalog::leases::{EXPORTS_LEASE, PERSONS_LEASE};
use millrace_catalog::testing::TestDatabase;
use millrace_exports::engine::EngineOptions;
use millrace_persons::WorkerOptions;
use rustix::process::{Signal, kill_process};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A PostgreSQL database, and a runtime to ask it in.
pub struct Shared {
    database: TestDatabase,
    runtime: Runtime,
}

/// What one process leads, and how others see that it does.
#[derive(Clone, Copy)]
pub enum Work {
    Exports,
    Persons,
}

/// Who leads.
struct Lease {
    holder: String,
    /// Until when, in microseconds of the database's clock.
    lapses_at: i64,
    /// When that was asked, likewise.
    now: i64,
}

/// How another process took over, in microseconds after the one that led was dead.
#[derive(Debug)]
pub struct Takeover {
    /// When it was dead, by the database's clock.
    pub died_at: i64,
    /// When another one led at the latest.
    pub led_after: Duration,
}

impl Shared {
    pub fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let database = runtime.block_on(TestDatabase::postgres());
        Self { database, runtime }
    }

    pub fn url(&self) -> &str {
        self.database.url()
    }

    /// The first column of what a query finds, as text.
    pub fn ask(&self, sql: &str) -> Vec<String> {
        let asked = self.database.first_column(sql);
        self.runtime.block_on(asked).unwrap()
    }

    fn lease(&self, work: Work) -> Lease {
        let line = self.ask(&work.lease()).remove(0);
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap();
        Lease {
            holder: next().to_owned(),
            lapses_at: next().parse().unwrap(),
            now: next().parse().unwrap(),
        }
    }
}

impl Work {
    /// The lease and the time, by the database's clock.
    fn lease(self) -> String {
        let name = match self {
            Self::Exports => EXPORTS_LEASE,
            Self::Persons => PERSONS_LEASE,
        };
        format!(
            "SELECT holder::text || ' ' || lapses_at || ' ' || \
             CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) \
             FROM leases WHERE name = '{name}'"
        )
    }

    fn metric(self) -> &'static str {
        match self {
            Self::Exports => "millrace_export_leader",
            Self::Persons => "millrace_person_leader",
        }
    }

    /// How long a process that says nothing leads.
    fn lapse_after(self) -> Duration {
        match self {
            Self::Exports => EngineOptions::DEFAULT.lapse_after,
            Self::Persons => WorkerOptions::default().lapse_after,
        }
    }
}

/// The processes that are alive.
pub struct Admins<'a> {
    shared: &'a Shared,
    alive: Vec<(Server, TempDir)>,
}

impl<'a> Admins<'a> {
    /// Starts so many, with these arguments.
    pub fn start(shared: &'a Shared, count: usize, args: &[&str]) -> Self {
        let one = |_| {
            let folder = TempDir::new().unwrap();
            (Server::start_mode("admin", folder.path(), args), folder)
        };
        Self {
            shared,
            alive: (0..count).map(one).collect(),
        }
    }

    /// How many are alive.
    pub fn count(&self) -> usize {
        self.alive.len()
    }

    /// Waits until all of them tell a metric.
    pub fn all_tell(&self, metric: &str) {
        eventually(metric, || {
            let mut all = self.alive.iter();
            all.all(|(server, _)| server.metric(metric).is_some())
                .then_some(())
        });
    }

    /// Kills the one that leads, and waits until another one does.
    pub fn kill_leader(&mut self, work: Work) -> Takeover {
        let leader = eventually("a leader", || {
            let leads = |server: &Server| server.metric(work.metric()) == Some(1.0);
            self.alive.iter().position(|(server, _)| leads(server))
        });
        let (mut killed, _folder) = self.alive.remove(leader);
        kill_process(killed.pid(), Signal::KILL).unwrap();
        killed.wait();
        let dead = self.shared.lease(work);
        let held_max = work.lapse_after().as_micros();
        let held = u128::try_from(dead.lapses_at - dead.now).unwrap_or(0);
        assert!(held <= held_max, "it holds the lease for {held} µs more");
        let next = eventually("another leader", || {
            let seen = self.shared.lease(work);
            (seen.holder != dead.holder).then_some(seen)
        });
        // It may have extended the lease since it took it.
        let led_at = next.lapses_at - i64::try_from(held_max).unwrap();
        assert!(led_at >= dead.lapses_at, "two lead at a time");
        Takeover {
            died_at: dead.now,
            led_after: Duration::from_micros(u64::try_from(led_at - dead.now).unwrap_or(0)),
        }
    }
}
