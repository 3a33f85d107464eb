//! A real engine beside the server, to which the server ships.

use super::bench::Bench;
use super::listener::{Listener, on_cpus};
use super::load::BATCHES;
use super::server::{Contestant, Server, ServerOptions};
use super::store::Store;
use crate::clickhouse::ClickHouse;
use crate::credentials::Credentials;
use crate::plan::Plan;
use crate::proxy::Insert;
use crate::runtime::current_thread_runtime;
use anyhow::{Context, Result};
use tokio::runtime::Runtime;

/// Size limit of the log of a server that ships: the product's default.
const LOG_BYTES_MAX: &str = "10GiB";

/// A running engine; ended on drop, with its tables removed. An existing engine, given by
/// `--clickhouse-url`, is left alone.
#[derive(Debug)]
pub struct Engine {
    clickhouse: ClickHouse,
    runtime: Runtime,
    listener: Option<Listener>,
}

impl Engine {
    /// Starts the embedded engine, without the server, on the CPUs of a `taskset` list; its tables
    /// are on the disk. An engine given by the options is used instead.
    ///
    /// # Errors
    /// There is no engine, or it does not start.
    pub fn start(bench: &Bench<'_>, cpus: &str) -> Result<Self> {
        let runtime = current_thread_runtime()?;
        if let Some(clickhouse) = &bench.options.clickhouse {
            return Ok(Self {
                clickhouse: clickhouse.clone(),
                runtime,
                listener: None,
            });
        }
        let folder = bench.folder(Store::Disk)?;
        let mut command = on_cpus(cpus, &bench.options.server)?;
        command
            .args(["clickhouse", "--clickhouse-addr", "127.0.0.1:0"])
            .args(["--log-level", "error"])
            .arg("--data-dir")
            .arg(folder.path());
        let listener = Listener::start(command, folder).context("the embedded engine")?;
        let credentials = Credentials::read(&listener.folder().join("credentials.json"))?;
        Ok(Self {
            clickhouse: ClickHouse::of(&credentials),
            runtime,
            listener: Some(listener),
        })
    }

    /// URL and login of the engine.
    #[must_use]
    pub const fn clickhouse(&self) -> &ClickHouse {
        &self.clickhouse
    }

    /// Starts a server that ships to this engine. Returns it with a plan of [`BATCHES`] on the CPUs
    /// that [`Bench::cpus`] leaves to the generator beside an engine.
    ///
    /// # Errors
    /// The server does not start.
    pub fn server(&self, bench: &Bench<'_>, contestant: Contestant) -> Result<(Server, Plan)> {
        self.server_with_log(bench, contestant, LOG_BYTES_MAX)
    }

    /// Starts a server with another size limit of the log, otherwise like [`Self::server`].
    ///
    /// # Errors
    /// See [`Self::server`].
    pub fn server_with_log(
        &self,
        bench: &Bench<'_>,
        contestant: Contestant,
        log_bytes_max: &str,
    ) -> Result<(Server, Plan)> {
        let options = ServerOptions {
            clickhouse: Some(&self.clickhouse),
            log_bytes_max: Some(log_bytes_max),
            ..ServerOptions::default()
        };
        let server = Server::start_with(bench, contestant, options)?;
        let mut plan = bench.plan(&server, contestant.cpus());
        plan.pin = bench.cpus.split_with_engine(contestant.cpus()).generator;
        plan.threads = plan.pin.len();
        BATCHES.apply(&mut plan);
        Ok((server, plan))
    }

    /// Number of rows that can be queried in a table of the database `millrace`; 0 if the table
    /// does not exist yet.
    ///
    /// # Errors
    /// The engine does not respond.
    pub fn rows(&self, table: &str) -> Result<u64> {
        let query = format!(
            "SELECT sum(rows) FROM system.parts \
             WHERE database = 'millrace' AND table = '{table}' AND active"
        );
        self.runtime.block_on(self.clickhouse.number(&query))
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// The engine does not respond, or refuses.
    pub fn execute(&self, statement: &str) -> Result<()> {
        self.runtime.block_on(self.clickhouse.execute(statement))
    }

    /// Runs a query, discards its result and returns its size in bytes.
    ///
    /// # Errors
    /// See [`Self::execute`].
    pub fn drain(&self, query: &str) -> Result<u64> {
        self.runtime.block_on(self.clickhouse.drain(query))
    }

    /// Sends a recorded insert.
    ///
    /// # Errors
    /// See [`Self::execute`].
    pub fn insert(&self, insert: &Insert) -> Result<()> {
        let rows = insert.rows.clone();
        let insert = self.clickhouse.insert(&insert.path_and_query, rows);
        self.runtime.block_on(insert)
    }

    /// Removes all events and ends their merges, so that the next run does not pay for the last. An
    /// engine that was there before us keeps its events.
    ///
    /// # Errors
    /// See [`Self::execute`].
    pub fn empty(&self) -> Result<()> {
        if self.listener.is_none() {
            return Ok(());
        }
        self.execute("TRUNCATE TABLE IF EXISTS millrace.events")
    }
}
