//! Delivery of one run, from the staging table to the table.

use super::server::{Server, Statement};
use super::{sql, table_schema, tsv};
use crate::destination::table::receiver::Receiver;
use crate::destination::warehouse::stage::{Stage, stage_name};
use crate::destination::{Delivered, Delivery};
use crate::error::{ExportError, ExportErrorKind};
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;
use millrace_catalog::ExportModel;
use std::sync::Arc;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// Bytes of an insert at most, unless a row alone has more.
const INSERT_BYTES: usize = 8 << 20;

/// Delivery of rows into a staging table of this try.
pub(super) struct ClickHouseDelivery {
    server: Arc<Server>,
    model: ExportModel,
    /// Name of the staging table, which the ids of all statements of this try begin with.
    name: String,
    stage: Stage,
    receiver: Receiver,
    /// Rows that are not sent yet.
    rows: Vec<u8>,
    /// Number of inserts.
    inserts: u64,
    bytes: u64,
}

/// Settings of an insert into a staging table: answered once it is stored, one block under a token.
pub(super) fn insert_settings(token: &str) -> Vec<(&'static str, String)> {
    let mut settings = vec![("insert_deduplication_token", token.to_owned())];
    for (name, value) in [
        ("async_insert", "0"),
        ("insert_deduplicate", "1"),
        ("input_format_parallel_parsing", "0"),
        ("max_insert_block_size", "2000000"),
        ("min_insert_block_size_rows", "2000000"),
        ("min_insert_block_size_bytes", "1073741824"),
        ("input_format_null_as_default", "1"),
        ("date_time_input_format", "best_effort"),
    ] {
        settings.push((name, value.to_owned()));
    }
    settings
}

impl ClickHouseDelivery {
    pub(super) async fn begin(server: Arc<Server>, run: &RunScope) -> Result<Self, ExportError> {
        table_schema::ensure(&server, run.model).await?;
        let window = stage_name(&server.table, run);
        end_earlier_tries(&server, &window).await?;
        let name = format!("{window}_{}", Uuid::new_v4().simple());
        let create = server.statement(sql::create_stage(&server, &name));
        // Once: a name is used by one try alone.
        server.once(&create).await.map_err(|failed| failed.error)?;
        Ok(Self {
            server,
            model: run.model,
            stage: Stage::new(name.clone()),
            name,
            receiver: Receiver::new(usize::MAX),
            rows: Vec::new(),
            inserts: 0,
            bytes: 0,
        })
    }

    async fn send(&mut self) -> Result<(), ExportError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = Bytes::from(std::mem::take(&mut self.rows));
        let id = format!("{}-{}", self.name, self.inserts);
        let insert = Statement {
            settings: insert_settings(&id),
            id,
            rows: rows.clone(),
            ..self.server.statement(sql::insert(&self.server, &self.name))
        };
        self.server.run(&insert).await?;
        self.inserts += 1;
        self.bytes += rows.len() as u64;
        Ok(())
    }

    /// Brings the rows into the table: those that are missing, until none is.
    async fn publish_rows(&mut self) -> Result<(), ExportError> {
        self.send().await?;
        let server = &self.server;
        let (staged, rows) = (
            server.number(&sql::count(server, &self.name)).await?,
            self.receiver.rows,
        );
        // A server that was killed may remember a token and not its rows.
        if staged != rows {
            return Err(ExportError::rows_missing(staged, rows));
        }
        let missing = sql::count_missing(server, &self.name, self.model);
        let mut last = None;
        for nth in 0..server.retry_policy.tries_max {
            match server.number(&missing).await? {
                0 => return Ok(()),
                _ if nth > 0 => sleep(server.retry_policy.delay_min).await,
                _ => {}
            }
            last = self.insert_missing().await.err();
            if let Some(error) = &last
                && error.kind == ExportErrorKind::Permanent
            {
                return Err(error.clone());
            }
        }
        match server.number(&missing).await? {
            0 => Ok(()),
            missing => {
                Err(last
                    .unwrap_or_else(|| ExportError::rows_missing(rows - missing.min(rows), rows)))
            }
        }
    }

    /// Inserts what is missing, and waits until the statement has ended, whatever became of its
    /// answer. All tries have one id, so that a request that comes late does not run beside the
    /// next.
    async fn insert_missing(&self) -> Result<(), ExportError> {
        let server = &self.server;
        let id = format!("{}-publish", self.name);
        let publish = Statement {
            id: id.clone(),
            settings: vec![
                ("async_insert", "0".to_owned()),
                // The rows of a window may be of any number of months.
                ("max_partitions_per_insert_block", "0".to_owned()),
            ],
            time_max: server.retry_policy.work_max,
            ..server.statement(sql::publish(server, &self.name, self.model))
        };
        let published = server.once(&publish).await;
        if published.is_err() {
            wait_for_end(server, &id).await?;
        }
        published.map(drop).map_err(|failed| failed.error)
    }

    async fn drop_stage(&mut self) {
        let dropping = self
            .server
            .statement(sql::drop_table(&self.server, &self.name));
        let dropping = self.server.run(&dropping);
        self.stage.end(dropping).await;
    }
}

/// Drops the staging tables of earlier tries of a window, so that none of their statements begins
/// any more, and waits for those that run.
async fn end_earlier_tries(server: &Server, window: &str) -> Result<(), ExportError> {
    let found = server.statement(sql::stages(server, window));
    let found = server.run(&found).await?;
    for stage in found.lines().filter(|name| name.starts_with(window)) {
        let dropping = server.statement(sql::drop_table(server, stage));
        server.run(&dropping).await?;
    }
    wait_for_end(server, window).await
}

/// Waits until no statement runs whose id begins like this.
async fn wait_for_end(server: &Server, prefix: &str) -> Result<(), ExportError> {
    let until = Instant::now() + server.retry_policy.work_max;
    while server.number(&sql::running(prefix)).await? > 0 {
        if Instant::now() >= until {
            return Err(ExportError::retryable(
                "A statement of an earlier try still runs in ClickHouse.",
            ));
        }
        sleep(server.retry_policy.delay_min).await;
    }
    Ok(())
}

#[async_trait]
impl Delivery for ClickHouseDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.receiver.lines.push(&bytes);
        while let Some(line) = self.receiver.lines.next_line()? {
            let line = self.receiver.take(&line);
            let cells = self.server.layout.cells(&line)?;
            tsv::append(&cells, &mut self.rows);
            if self.rows.len() >= INSERT_BYTES {
                self.send().await?;
            }
        }
        Ok(())
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        self.receiver.end_part(rows)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn publish(mut self: Box<Self>) -> Result<Delivered, ExportError> {
        let published = self.publish_rows().await;
        // No try may follow.
        self.drop_stage().await;
        published?;
        Ok(Delivered {
            rows: Some(self.receiver.rows),
            bytes: self.bytes,
            rows_changed: self.receiver.rows_changed,
        })
    }

    async fn abort(mut self: Box<Self>) {
        self.drop_stage().await;
    }
}
