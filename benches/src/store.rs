//! A log that nobody ships, and requests that are committed to it.

use anyhow::{Context, Result};
use millrace_parse::Parser;
use millrace_pipeline::{Ack, Pipeline, PipelineOptions, Running};
use millrace_rows::{Batch, Lane};
use std::path::Path;
use tempfile::TempDir;

const LOG_BYTES_MAX: u64 = 2 << 30;

/// A pipeline with its own temporary log.
pub struct Store {
    pipeline: Pipeline,
    running: Option<Running>,
    runtime: tokio::runtime::Runtime,
    /// Folder of the log, removed when dropped.
    _log: TempDir,
}

impl Store {
    /// Opens a log in a folder of its own below `dir`; it takes about 2 GiB.
    ///
    /// # Errors
    /// The log cannot be opened, or the system has no thread left.
    pub fn below(dir: &Path) -> Result<Self> {
        let log = TempDir::new_in(dir).context("cannot make a folder for the log")?;
        let (pipeline, running) = Pipeline::start(&PipelineOptions {
            log_dir: log.path().to_owned(),
            log_bytes_max: LOG_BYTES_MAX,
            segment_bytes: 64 << 20,
            queue_requests_max: 64,
            queue_bytes_max: 64 << 20,
            insert_bytes_max: PipelineOptions::INSERT_BYTES_MAX,
            ack: Ack::Disk,
        })?;
        Ok(Self {
            pipeline,
            running: Some(running),
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .context("cannot start a runtime")?,
            _log: log,
        })
    }

    /// Commits the rows that `parse` makes of a body of `body_bytes` bytes.
    ///
    /// # Errors
    /// The body was not parsed, or not stored: the log is full after about 2 GiB.
    pub fn commit(
        &self,
        parser: &mut Parser,
        body_bytes: usize,
        parse: impl FnOnce(&mut Parser) -> Result<Batch>,
    ) -> Result<()> {
        let slot = self.pipeline.reserve(Lane::Live, body_bytes)?;
        let batch = parse(parser)?;
        let submitted = slot.submit(batch, |spent| parser.recycle(spent));
        let committed = self.runtime.block_on(submitted)?;
        parser.recycle(committed.spent);
        Ok(())
    }

    /// Bytes used by the log.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.pipeline.log_bytes_used()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}
