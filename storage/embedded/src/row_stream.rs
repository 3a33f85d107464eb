//! Rows of a running query, as they come through its pipe, and the end of its thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::engine::Engine;
use crate::exception::Exception;
use crate::statement_progress::StatementEnded;

const READ_BYTES: usize = 256 << 10;

/// Handle of the thread that runs a statement, with its result.
pub(crate) type StatementTask = JoinHandle<Result<StatementEnded, Exception>>;

/// Reading side of a running query. Dropping it before the end stops the query.
pub(crate) struct RowStream {
    pipe: pipe::Receiver,
    job: Option<StatementTask>,
    engine: Arc<Engine>,
    tag: String,
}

// === impl RowStream ===

impl RowStream {
    /// Takes the reading end of a query's pipe, and its tag in the engine's process list.
    pub(crate) fn new(
        pipe: OwnedFd,
        job: StatementTask,
        (engine, tag): (Arc<Engine>, String),
    ) -> io::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd(pipe)?;
        Ok(Self {
            pipe,
            job: Some(job),
            engine,
            tag,
        })
    }

    /// Appends the bytes that the query has written; returns zero at its end. A pipe's only error
    /// is being closed.
    pub(crate) async fn read(&mut self, buffer: &mut BytesMut) -> usize {
        buffer.reserve(READ_BYTES);
        self.pipe.read_buf(buffer).await.unwrap_or(0)
    }

    /// Waits for the end of the query.
    pub(crate) async fn end(mut self) -> Result<StatementEnded, Exception> {
        match self.job.take() {
            Some(job) => join_statement(job).await,
            None => Err(Exception::new(
                1002,
                "The statement has already ended",
                "UNKNOWN_EXCEPTION",
            )),
        }
    }
}

impl Drop for RowStream {
    fn drop(&mut self) {
        let Some(mut job) = self.job.take() else {
            return;
        };
        let (engine, tag) = (Arc::clone(&self.engine), std::mem::take(&mut self.tag));
        tokio::spawn(async move {
            // The query may not yet be in the engine's list when it is looked for, so ask until it
            // has ended.
            loop {
                let (engine, tag) = (Arc::clone(&engine), tag.clone());
                let _ = tokio::task::spawn_blocking(move || engine.kill(&tag)).await;
                if timeout(Duration::from_millis(500), &mut job).await.is_ok() {
                    return;
                }
            }
        });
    }
}

/// Waits for a statement's thread and returns its result.
pub(crate) async fn join_statement(job: StatementTask) -> Result<StatementEnded, Exception> {
    job.await.unwrap_or_else(|error| {
        Err(Exception::new(
            1001,
            &format!("The statement's thread ended early: {error}"),
            "STD_EXCEPTION",
        ))
    })
}
