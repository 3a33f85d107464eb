//! One round: copy what is left of the last one; then the projects without a backlog, whose changes
//! are in ClickHouse before the first update of a backlog is read; then the backlogs, for a time.
//!
//! An update of a project without a backlog waits for the part of a round that is under way, and
//! for its own. Neither depends on what the backlogs have waiting.

use super::{RoundOutcome, Worker};
use crate::batch::{self, Batch, NextBatch};
use crate::failure::Failure;
use crate::round_size::{MeasuredRound, RoundSize};
use crate::state::{ApplyOptions, PersonProgress, PersonStore};
use crate::{metrics, replicate};
use millrace_catalog::{Nodes, UtcTime};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Pause between transactions of a round: other processes poll for SQLite's lock, and would not
/// find it free without one.
const BETWEEN_TRANSACTIONS: Duration = Duration::from_millis(10);

/// Outcome of a round for the projects without a backlog.
enum OthersOutcome {
    /// The backlogs are next; `has_all` is true if the others have nothing left.
    Backlogs { at: PersonProgress, has_all: bool },
    /// The round is over: projects were deferred, or another process was faster.
    Over(PersonProgress),
}

/// Outcome of applying a batch.
struct AppliedBatch {
    at: PersonProgress,
    /// Number of updates that were applied and copied; `None` if another process was faster.
    count: Option<usize>,
}

impl Worker {
    /// Brings the catalog and ClickHouse one step further. Two processes at it at the same time do
    /// no harm: of two that apply the same updates, one finds that it is late.
    ///
    /// # Errors
    /// When a database cannot be asked.
    pub async fn round(&self) -> Result<RoundOutcome, Failure> {
        Ok(self.step().await?.0)
    }

    /// Makes a round, and returns with it the arrival time before which all is applied and copied.
    pub(super) async fn step(&self) -> Result<(RoundOutcome, Option<UtcTime>), Failure> {
        let progress = PersonStore::new(&self.catalog).progress().await?;
        if progress.copied < progress.version {
            self.copy(&progress).await?;
        }
        let watermark = Nodes::new(&self.catalog).updates_watermark().await?;
        metrics::backlogs(progress.backlogs.len());
        let Some(watermark) = watermark else {
            return Ok((RoundOutcome::Done, progress.watermark()));
        };
        let (at, has_all) = if progress.passed < Some(watermark) {
            match self.apply_others(progress, watermark).await? {
                OthersOutcome::Backlogs { at, has_all } => (at, has_all),
                OthersOutcome::Over(at) => return Ok((RoundOutcome::More, at.watermark())),
            }
        } else {
            // All of these that may be applied has been.
            (progress, true)
        };
        if at.backlogs.is_empty() {
            let round = if has_all {
                RoundOutcome::Done
            } else {
                RoundOutcome::More
            };
            return Ok((round, at.passed));
        }
        self.apply_backlogs(at, has_all, watermark).await
    }

    /// Applies updates of projects without a backlog, copies what they changed, and records that
    /// these projects have passed the watermark, if nothing is left. Where one has more than its
    /// share waiting, it is deferred to a backlog instead.
    async fn apply_others(
        &self,
        progress: PersonProgress,
        watermark: UtcTime,
    ) -> Result<OthersOutcome, Failure> {
        let limits = (self.others_size.get(), self.options.bytes_max);
        let (catalog, clickhouse) = (&self.catalog, &self.clickhouse);
        let next = batch::next_of_others(catalog, clickhouse, &progress, watermark, limits).await?;
        let batch = match next {
            NextBatch::Ready(batch) => batch,
            NextBatch::Defer(project_ids, batch) => {
                let deferred = PersonStore::new(catalog)
                    .defer(&progress, &project_ids)
                    .await?;
                if deferred > 0 {
                    tracing::debug!(
                        projects = ?project_ids,
                        "person updates of a project wait in a backlog of their own"
                    );
                    return Ok(OthersOutcome::Over(progress));
                }
                // The projects are gone, or another process was faster.
                batch
            }
        };
        let part = (&self.others_size, self.options.apply_max);
        let applied = self.apply(progress, &batch, watermark, part).await?;
        let mut at = applied.at;
        let Some(count) = applied.count else {
            return Ok(OthersOutcome::Over(at));
        };
        let has_all = batch.has_all_others(count);
        if has_all {
            let noted = PersonStore::new(catalog).note_passed(&at, watermark);
            noted.await?;
            at.passed = at.passed.max(Some(watermark));
        }
        Ok(OthersOutcome::Backlogs { at, has_all })
    }

    /// Applies updates of projects with a backlog, copies what they changed, and records the
    /// progress of each project.
    async fn apply_backlogs(
        &self,
        progress: PersonProgress,
        others_have_all: bool,
        watermark: UtcTime,
    ) -> Result<(RoundOutcome, Option<UtcTime>), Failure> {
        let size = &self.backlogs_size;
        let limits = (size.get(), size.bytes(self.options.bytes_max));
        let (catalog, clickhouse) = (&self.catalog, &self.clickhouse);
        let batch = batch::of_backlogs(catalog, clickhouse, &progress, watermark, limits).await?;
        let part = (size, self.options.backlogs_max);
        let AppliedBatch { at, count } = self.apply(progress, &batch, watermark, part).await?;
        let Some(count) = count else {
            return Ok((RoundOutcome::More, at.watermark()));
        };
        let caught_up = batch.caught_up(count);
        // Backlogs rejoin once they are as far as all other projects.
        let rejoin = at.passed == Some(watermark);
        let noting = PersonStore::new(catalog).rejoin(&at, &caught_up, watermark, rejoin);
        noting.await?;
        let is_done = others_have_all && caught_up.len() == at.backlogs.len();
        if is_done && rejoin {
            return Ok((RoundOutcome::Done, at.passed));
        }
        let round = if is_done {
            RoundOutcome::Done
        } else {
            RoundOutcome::More
        };
        Ok((round, at.watermark()))
    }

    /// Applies a batch and copies what it changed. Updates of others are all applied; of backlogs,
    /// those that `time_max` has time for.
    async fn apply(
        &self,
        progress: PersonProgress,
        batch: &Batch,
        watermark: UtcTime,
        (size, time_max): (&RoundSize, Duration),
    ) -> Result<AppliedBatch, Failure> {
        let (mut at, mut count) = (progress, 0);
        let began = Instant::now();
        let options = ApplyOptions {
            before: Some(watermark),
            growth: self.options.growth,
            merged_ids_max: self.options.merged_ids_max,
        };
        while let Some(left @ [_, ..]) = batch.updates.get(count..) {
            if count > 0 {
                let is_late = began.elapsed() >= time_max;
                if is_late && batch.has_all_others(count) {
                    break;
                }
                sleep(BETWEEN_TRANSACTIONS).await;
            }
            let applying = PersonStore::new(&self.catalog).apply(&at, left, options);
            let Some(applied) = applying.await? else {
                return Ok(AppliedBatch { at, count: None });
            };
            metrics::applied(&applied);
            (at, count) = (applied.progress, count + applied.count);
        }
        if count > 0 {
            self.copy(&at).await?;
            let has_rest = count < batch.updates.len();
            // A round that was read up to its limit is measured as one of that size: beside
            // backlogs it has half as many updates, or as many as have the bytes.
            let is_full = batch.is_cut() && !has_rest;
            let round = MeasuredRound {
                updates: if is_full { size.get() } else { count },
                is_cut: batch.is_cut() || has_rest,
                took: began.elapsed(),
            };
            size.adapt(round, time_max);
        }
        Ok(AppliedBatch {
            at,
            count: Some(count),
        })
    }

    async fn copy(&self, progress: &PersonProgress) -> Result<(), Failure> {
        let on_page = || {
            self.copied_pages.fetch_add(1, Relaxed);
        };
        replicate::replicate(&self.catalog, &self.clickhouse, progress.copied, on_page).await?;
        PersonStore::new(&self.catalog)
            .note_copied(progress.version)
            .await?;
        Ok(())
    }
}
