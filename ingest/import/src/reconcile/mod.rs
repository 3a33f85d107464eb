//! Reconciliation of an import: compares what was accepted with what ClickHouse has.
//!
//! Events that were accepted may still be on their way, so a comparison that misses some is
//! repeated for a while. What is missing then may be duplicates of the source, which are stored
//! once: the files tell.

mod differences;

pub use differences::Difference;

use crate::clickhouse::{ClickHouse, Stored};
use crate::files::SourceFile;
use crate::journal::Progress;
use crate::plan::Plan;
use differences::{differences, without_duplicates};
use millrace_sources::FileError;
use std::time::{Duration, Instant};

/// Pause before a comparison that missed events is repeated.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// Events of a project in ClickHouse.
#[derive(Clone, Copy, Debug)]
pub struct StoredEvents<'a> {
    /// Server that has them.
    pub clickhouse: &'a ClickHouse,
    /// Database that has the table `events`.
    pub database: &'a str,
    /// Project that the import went to.
    pub project_id: i64,
}

/// Comparison of an import with the stored events.
#[derive(Clone, Debug)]
pub struct Reconciliation {
    /// Journal of the import.
    pub progress: Progress,
    /// Stored events.
    pub stored: Stored,
    /// Days and events whose counts differ.
    pub differences: Vec<Difference>,
    /// Events that the source has twice under one id.
    pub duplicates: u64,
}

impl Reconciliation {
    /// Compares an import with the stored events; as long as some are missing, again until `wait`
    /// has passed.
    ///
    /// # Errors
    /// ClickHouse cannot be queried.
    pub async fn compare(
        progress: Progress,
        events: StoredEvents<'_>,
        wait: Duration,
    ) -> anyhow::Result<Self> {
        let deadline = Instant::now() + wait;
        loop {
            let stored = events.clickhouse.stored(events.database, events.project_id);
            let stored = stored.await?;
            let differences = differences(&progress.sum, &stored.merged);
            if !differences.iter().any(Difference::is_missing) || Instant::now() >= deadline {
                return Ok(Self {
                    progress,
                    stored,
                    differences,
                    duplicates: 0,
                });
            }
            tokio::time::sleep(REPEAT_PAUSE).await;
        }
    }

    /// Leaves out differences that duplicates in the source explain, which is read again.
    ///
    /// # Errors
    /// A file cannot be read again.
    pub fn leave_out_duplicates(
        &mut self,
        files: &[SourceFile],
        plan: &Plan,
    ) -> Result<(), FileError> {
        self.duplicates = without_duplicates(&mut self.differences, files, plan)?;
        Ok(())
    }

    /// Leaves out events that are stored more often than they were accepted.
    pub fn leave_out_surplus(&mut self) {
        self.differences.retain(Difference::is_missing);
    }

    /// Returns true if fewer events are stored than were accepted.
    #[must_use]
    pub fn has_missing(&self) -> bool {
        self.differences.iter().any(Difference::is_missing)
    }

    /// Returns true if more events are stored than were accepted.
    #[must_use]
    pub fn has_surplus(&self) -> bool {
        !self.differences.iter().all(Difference::is_missing)
    }

    /// Number of files that were not loaded to the end.
    #[must_use]
    pub fn unfinished_files(&self) -> usize {
        let files = self.progress.files.values();
        files.filter(|file| !file.is_end).count()
    }
}
