//! A real engine beside the server, so that what is measured ships somewhere.

use super::bench::Bench;
use super::cases::BATCHES;
use super::listener::{Listener, on_cpus};
use super::server::{Beside, Contestant, Server, Store};
use crate::clickhouse::ClickHouse;
use crate::credentials::Credentials;
use crate::plan::Plan;
use crate::proxy::Insert;
use anyhow::{Context, Result};
use tokio::runtime::Runtime;

/// Room for the log of a server that ships: the product's own default.
const LOG_BYTES_MAX: &str = "10GiB";

/// A running engine; ended, and its tables removed, when dropped. One that was there before us, as
/// `--clickhouse-url` has it, is neither.
#[derive(Debug)]
pub struct Engine {
    clickhouse: ClickHouse,
    runtime: Runtime,
    listener: Option<Listener>,
}

impl Engine {
    /// Starts the server's embedded engine, without the server, on CPUs as `taskset` wants them;
    /// its tables are on the disk. If there is to be another, that is used.
    ///
    /// # Errors
    /// There is no engine, or it does not start.
    pub fn start(bench: &Bench<'_>, cpus: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?;
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

    /// Where it is, and who may ask it.
    #[must_use]
    pub const fn clickhouse(&self) -> &ClickHouse {
        &self.clickhouse
    }

    /// A server that ships to this engine, and a plan of [`BATCHES`] that leaves the CPUs to the
    /// engine that [`Bench::cpus`] has for one beside a server.
    ///
    /// # Errors
    /// The server does not start.
    pub fn server(&self, bench: &Bench<'_>, contestant: Contestant) -> Result<(Server, Plan)> {
        self.server_with_log(bench, contestant, LOG_BYTES_MAX)
    }

    /// The same with another room for the log.
    ///
    /// # Errors
    /// As [`Self::server`].
    pub fn server_with_log(
        &self,
        bench: &Bench<'_>,
        contestant: Contestant,
        log_bytes_max: &str,
    ) -> Result<(Server, Plan)> {
        let beside = Beside {
            clickhouse: Some(&self.clickhouse),
            log_bytes_max: Some(log_bytes_max),
            ..Beside::default()
        };
        let server = Server::start_beside(bench, contestant, beside)?;
        let mut plan = bench.plan(&server, contestant.cpus());
        plan.pin = bench.cpus.beside_engine(contestant.cpus()).generator;
        plan.threads = plan.pin.len();
        BATCHES.apply(&mut plan);
        Ok((server, plan))
    }

    /// Rows that can be queried in a table of the database `millrace`; none where there is no
    /// such table yet.
    ///
    /// # Errors
    /// The engine does not answer.
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
    /// The engine does not answer, or refuses.
    pub fn execute(&self, statement: &str) -> Result<()> {
        self.runtime.block_on(self.clickhouse.execute(statement))
    }

    /// Runs a query and throws the answer away; answers how many bytes it had.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn drain(&self, query: &str) -> Result<u64> {
        self.runtime.block_on(self.clickhouse.drain(query))
    }

    /// Sends rows.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn insert(&self, insert: &Insert) -> Result<()> {
        let rows = insert.rows.clone();
        let insert = self.clickhouse.insert(&insert.path_and_query, rows);
        self.runtime.block_on(insert)
    }

    /// Removes all events, with the merges that go on, so that the next run does not pay for the
    /// last. Not those of an engine that was there before us.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn empty(&self) -> Result<()> {
        if self.listener.is_none() {
            return Ok(());
        }
        self.execute("TRUNCATE TABLE IF EXISTS millrace.events")
    }
}
