//! Logs of both lanes: their opening, their part of readiness, and what was found in them.

use crate::config::Config;
use anyhow::{Context, bail};
use millrace_ingest::Readiness;
use millrace_log::panic_text;
use millrace_pipeline::{LaneOutput, Pipeline, PipelineOptions, Running};
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;

/// Size of a log segment, in bytes.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Requests that may wait for a commit, per lane.
const QUEUE_REQUESTS_MAX: usize = 16 * 1024;
/// Bytes of requests that may wait for a commit, per lane.
const QUEUE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Makes readiness require the logs. The place is to be set once events are taken.
pub fn require(readiness: &Readiness) -> Arc<OnceLock<Pipeline>> {
    let begun = Arc::new(OnceLock::<Pipeline>::new());
    let log = Arc::clone(&begun);
    readiness.require("log", move || match log.get() {
        Some(pipeline) => pipeline.failure(),
        None => {
            Some("the log is still being read; events are accepted once that is done".to_owned())
        }
    });
    begun
}

/// Opens the logs of both lanes, on a thread that may block. It is started from this thread, not
/// from a background thread of the runtime, as the commit threads inherit the priority of their
/// creator.
///
/// # Errors
/// When the logs cannot be read or written.
pub async fn open(config: &Config) -> anyhow::Result<(Pipeline, Running)> {
    let options = PipelineOptions {
        log_dir: config.log_dir.clone(),
        log_bytes_max: config.log_bytes_max,
        segment_bytes: SEGMENT_BYTES,
        queue_requests_max: QUEUE_REQUESTS_MAX,
        queue_bytes_max: QUEUE_BYTES_MAX,
        insert_bytes_max: PipelineOptions::INSERT_BYTES_MAX,
        ack: config.ack,
    };
    let (opened, opening) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("log-open".to_owned())
        .spawn(move || {
            // Nobody waits for the outcome if the process is to stop.
            let _ = opened.send(Pipeline::start(&options));
        })
        .context("the thread that reads the logs cannot be started")?;
    let Ok(opened) = opening.await else {
        // The thread has dropped its end, as it panicked.
        let panic = thread.join().err();
        let text = panic.as_deref().map_or("it ended early", panic_text);
        bail!("a bug keeps the logs from being read: {text}");
    };
    opened.with_context(|| {
        format!(
            "cannot use the logs in {}; check that they belong to this user and their disk can be \
             written, or give another folder with --log-dir",
            config.log_dir.display()
        )
    })
}

/// Reports the recovery of a log to the operator.
pub fn report_recovery(output: &LaneOutput) {
    let (lane, found) = (output.lane.name(), &output.recovery);
    if found.frames > 0 {
        tracing::info!(
            lane,
            frames = found.frames,
            rows = found.rows,
            "rows were found in the log; the shipper reports those that are not shipped"
        );
    }
    if let Some(cut) = &found.cut {
        tracing::info!(lane, at = %cut.position, bytes = cut.bytes, "cut an unfinished write, which was never acknowledged");
    }
    // Always, so that there is a 0 to see.
    metrics::counter!("millrace_log_damaged_total", "lane" => lane).increment(found.damage_count());
    if found.is_damaged() {
        tracing::error!(
            lane,
            ?found,
            "the log is damaged; what could not be read is in its quarantine folder"
        );
    }
}
