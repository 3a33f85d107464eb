//! Fixture: several `millrace admin` that share a catalog in PostgreSQL. One of them is the leader
//! of a task that a single process runs at a time, until it is killed.

use crate::server::{Server, eventually};
use millrace_catalog::leases::{EXPORTS_LEASE, PERSONS_LEASE};
use millrace_catalog::testing::TestDatabase;
use millrace_exports::engine::EngineOptions;
use millrace_persons::WorkerOptions;
use rustix::process::{Signal, kill_process};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Catalog in PostgreSQL, and a runtime for queries.
pub struct SharedCatalog {
    database: TestDatabase,
    runtime: Runtime,
}

/// Task that only the leader runs.
#[derive(Clone, Copy)]
pub enum LeaderTask {
    Exports,
    Persons,
}

/// Lease of the leader.
struct Lease {
    holder: String,
    /// End of the lease, in microseconds of the database's clock.
    lapses_at: i64,
    /// Time of the query, by the same clock.
    now: i64,
}

/// Failover to another process.
#[derive(Debug)]
pub struct Failover {
    /// Death of the leader, in microseconds of the database's clock.
    pub died_at: i64,
    /// Time until the next leader, at most.
    pub led_after: Duration,
}

impl SharedCatalog {
    pub fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let database = runtime.block_on(TestDatabase::postgres());
        Self { database, runtime }
    }

    pub fn url(&self) -> &str {
        self.database.url()
    }

    /// First column of a query's result, as text.
    pub fn ask(&self, sql: &str) -> Vec<String> {
        let asked = self.database.first_column(sql);
        self.runtime.block_on(asked).unwrap()
    }

    fn lease(&self, work: LeaderTask) -> Lease {
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

impl LeaderTask {
    /// Query for the lease and the time of the database's clock.
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

    /// Duration after which the lease of a silent process lapses.
    fn lapse_after(self) -> Duration {
        match self {
            Self::Exports => EngineOptions::DEFAULT.lapse_after,
            Self::Persons => WorkerOptions::default().lapse_after,
        }
    }
}

/// Running processes.
pub struct Admins<'a> {
    shared: &'a SharedCatalog,
    alive: Vec<(Server, TempDir)>,
}

impl<'a> Admins<'a> {
    /// Starts `count` processes with these arguments.
    pub fn start(shared: &'a SharedCatalog, count: usize, args: &[&str]) -> Self {
        let one = |_| {
            let folder = TempDir::new().unwrap();
            (Server::start_mode("admin", folder.path(), args), folder)
        };
        Self {
            shared,
            alive: (0..count).map(one).collect(),
        }
    }

    /// Number of running processes.
    pub fn count(&self) -> usize {
        self.alive.len()
    }

    /// Waits until all processes report a metric.
    pub fn wait_for_metric(&self, metric: &str) {
        eventually(metric, || {
            let mut all = self.alive.iter();
            all.all(|(server, _)| server.metric(metric).is_some())
                .then_some(())
        });
    }

    /// Kills the leader, and waits until another process leads.
    pub fn kill_leader(&mut self, work: LeaderTask) -> Failover {
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
        // The new leader may have renewed the lease since it took it.
        let led_at = next.lapses_at - i64::try_from(held_max).unwrap();
        assert!(led_at >= dead.lapses_at, "two lead at a time");
        Failover {
            died_at: dead.now,
            led_after: Duration::from_micros(u64::try_from(led_at - dead.now).unwrap_or(0)),
        }
    }
}
