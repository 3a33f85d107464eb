//! Applies updates in rounds, while this process holds the lease. A round is in [`round`].

mod round;

use crate::failure::Failure;
use crate::leader::Leader;
use crate::round_size::RoundSize;
use crate::state::{GrowthLimits, PersonStore};
use crate::{metrics, retention, target};
use millrace_catalog::{Catalog, UtcTime};
use millrace_clickhouse::{ClickHouse, QueryError};
use millrace_rows::{Month, RareLog};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// Interval at which the catalog's size is measured.
const MEASURE_EVERY: Duration = Duration::from_secs(60);

/// Time within which a ClickHouse that starts together with this process is expected.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Parts of the largest round that make the smallest one. A small one of projects without a backlog
/// would defer them for little, and one of backlogs keeps all others waiting.
const OTHERS_SMALLEST: usize = 10;
const BACKLOGS_SMALLEST: usize = 40;

/// Options of the worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Updates that are read at once at most. They are applied in transactions of a bounded number
    /// of rows.
    pub updates_max: usize,
    /// Bytes of updates that are read at once, roughly.
    pub bytes_max: usize,
    /// Time in which the updates of projects without a backlog should be applied and copied: a
    /// round reads as many of them as that takes, roughly.
    pub apply_max: Duration,
    /// Time for updates of projects with a backlog, after which the rest waits for the next round:
    /// what comes meanwhile from others waits for that.
    pub backlogs_max: Duration,
    /// Longest time without an end of the round or of a page that it copies. After it this process
    /// gives the lease up and begins anew. Both end far sooner while the databases answer.
    pub round_max: Duration,
    /// Wait between rounds when there is nothing to do.
    pub look_every: Duration,
    /// Wait after a failure.
    pub retry_pause: Duration,
    /// Time without a renewal after which a process's lease lapses.
    pub lapse_after: Duration,
    /// Time for which updates are kept in ClickHouse once they were applied, and on to the end of
    /// their month.
    pub kept: Duration,
    /// Limits on what a project may add within an hour of arrival.
    pub growth: GrowthLimits,
    /// Distinct ids of a person that may be merged into another at most; none for no limit.
    pub merged_ids_max: Option<u64>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            updates_max: 20_000,
            bytes_max: 32 << 20,
            apply_max: Duration::from_millis(500),
            backlogs_max: Duration::from_millis(300),
            // Longer than all statements of a round that a silent ClickHouse answers too late.
            round_max: Duration::from_secs(900),
            look_every: Duration::from_millis(200),
            retry_pause: Duration::from_secs(2),
            lapse_after: Duration::from_secs(6),
            kept: Duration::from_secs(30 * 24 * 3_600),
            growth: GrowthLimits::default(),
            merged_ids_max: Some(10_000),
        }
    }
}

/// The task that renews the lease of persons panicked: no update would ever be applied again.
#[derive(Debug, Error)]
#[error("the task that extends the lease of persons panicked")]
pub struct LeaseRenewerFailed;

/// Outcome of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundOutcome {
    /// More updates are waiting.
    More,
    /// All updates that may be applied have been.
    Done,
}

/// Applies updates of persons and groups.
#[derive(Debug)]
pub struct Worker {
    catalog: Catalog,
    clickhouse: ClickHouse,
    options: WorkerOptions,
    /// Updates of projects without a backlog that the next round reads at most.
    others_size: RoundSize,
    /// Updates of projects with one that it does.
    backlogs_size: RoundSize,
    /// Pages that were copied: a copy of all persons takes as long as it takes.
    copied_pages: AtomicU64,
    /// True once ClickHouse is known to have what was copied before this process led.
    is_target_checked: AtomicBool,
    began: Instant,
    /// Failures that were logged lately, since the last round that succeeded.
    failures: RareLog,
}

impl Worker {
    /// Creates a worker on a catalog and a ClickHouse whose schemas exist, or will.
    #[must_use]
    pub fn new(catalog: Catalog, clickhouse: ClickHouse, options: WorkerOptions) -> Self {
        metrics::describe();
        Self {
            catalog,
            clickhouse,
            options,
            others_size: RoundSize::new(options.updates_max, OTHERS_SMALLEST),
            backlogs_size: RoundSize::new(options.updates_max, BACKLOGS_SMALLEST),
            copied_pages: AtomicU64::new(0),
            is_target_checked: AtomicBool::new(false),
            began: Instant::now(),
            failures: RareLog::default(),
        }
    }

    /// Works whenever this process holds the lease, until it is stopped; then it releases the lease
    /// at once, and ends the round.
    ///
    /// # Errors
    /// The task that renews the lease panicked.
    pub async fn run(&self, stopped: impl Future<Output = ()>) -> Result<(), LeaseRenewerFailed> {
        let leader = Leader::start(
            self.catalog.clone(),
            Uuid::new_v4(),
            self.options.lapse_after,
        );
        let (mut retention_at, mut measure_at) = (Instant::now(), Instant::now());
        tokio::pin!(stopped);
        let outcome = loop {
            if Instant::now() >= measure_at {
                // Nothing waits for it.
                let _ = timeout(self.options.lapse_after, self.measure()).await;
                measure_at = Instant::now() + MEASURE_EVERY;
            }
            let pause = if leader.now() {
                let led = async {
                    if Instant::now() >= retention_at {
                        let pause = self.try_retention().await;
                        retention_at = Instant::now() + pause;
                    }
                    self.led_round().await
                };
                let round = unless_silent(self.options.round_max, &self.copied_pages, led);
                tokio::pin!(round);
                let ended = tokio::select! {
                    ended = &mut round => ended,
                    () = &mut stopped => {
                        // Together, as the round may hold what the release waits for. The next
                        // leader may begin before it ends: two rounds do no harm.
                        tokio::join!(leader.end(), round);
                        return Ok(());
                    }
                };
                if let Some(pause) = ended {
                    pause
                } else {
                    leader.resign();
                    self.options.retry_pause
                }
            } else {
                metrics::no_lag();
                self.options.look_every
            };
            tokio::select! {
                () = &mut stopped => break Ok(()),
                () = leader.failed() => break Err(LeaseRenewerFailed),
                () = sleep(pause) => {}
            }
        };
        leader.end().await;
        outcome
    }

    /// Records the size of the catalog, which is mostly persons; a failure is left to the next
    /// minute.
    async fn measure(&self) {
        if let Ok(bytes) = self.catalog.bytes().await {
            metrics::catalog_bytes(bytes);
        }
    }

    /// Drops old months; returns how long to wait for the next time. A failure is left to the next
    /// hour, as nothing waits for it.
    async fn try_retention(&self) -> Duration {
        match self.apply_retention().await {
            Err(failure) if is_of_a_start(&failure, self.began.elapsed()) => {
                return self.options.retry_pause;
            }
            Err(failure) => {
                tracing::warn!(%failure, "old updates of persons stay; trying again in an hour");
            }
            Ok(_) => {}
        }
        retention::CHECK_EVERY
    }

    /// Drops the months of updates that nobody needs any more, and returns them.
    ///
    /// # Errors
    /// When a database cannot be asked.
    pub async fn apply_retention(&self) -> Result<Vec<Month>, Failure> {
        retention::drop_expired_months(&self.catalog, &self.clickhouse, self.options.kept).await
    }

    /// Makes a round; returns how long to wait for the next.
    async fn led_round(&self) -> Duration {
        let failure = match self.checked_step().await {
            Ok((round, passed)) => {
                if self.failures.clear() {
                    tracing::info!("persons are kept again");
                }
                metrics::lag(passed);
                return match round {
                    RoundOutcome::More => Duration::ZERO,
                    RoundOutcome::Done => self.options.look_every,
                };
            }
            Err(failure) => failure,
        };
        let pause = if failure.tables_are_missing() {
            self.make_tables().await
        } else {
            let is_expected = is_of_a_start(&failure, self.began.elapsed());
            if !is_expected && self.failures.is_due(&failure.cause(), Instant::now()) {
                tracing::warn!(%failure, "persons are not up to date; trying again until they are");
            }
            self.options.retry_pause
        };
        // Without an answer the gauge keeps its last value.
        if let Ok(passed) = PersonStore::new(&self.catalog).watermark().await {
            metrics::lag(passed);
        }
        pause
    }

    /// Makes a round. Before the first one, a ClickHouse that lacks what was copied is detected.
    async fn checked_step(&self) -> Result<(RoundOutcome, Option<UtcTime>), Failure> {
        if !self.is_target_checked.load(Relaxed) {
            target::copy_again_if_behind(&self.catalog, &self.clickhouse).await?;
            self.is_target_checked.store(true, Relaxed);
        }
        self.step().await
    }

    /// Creates the tables of persons: at a first start this may run before events are shipped.
    /// Returns how long to wait.
    async fn make_tables(&self) -> Duration {
        match self.clickhouse.migrate().await {
            Ok(()) => self.options.look_every,
            Err(error) => {
                let cause = error
                    .query_error()
                    .map_or_else(|| error.to_string(), QueryError::cause);
                if self.failures.is_due(&cause, Instant::now()) {
                    tracing::warn!(%error, "the tables of persons cannot be created; trying again until they are");
                }
                self.options.retry_pause
            }
        }
    }
}

/// Returns true for a failure of a worker that has run for so long, if ClickHouse may just start,
/// too: then whoever starts it reports what is wrong.
fn is_of_a_start(failure: &Failure, running: Duration) -> bool {
    running < STARTS_WITHIN && failure.is_without_connection()
}

/// Awaits a round; `None` if for so long it does not end, and no page is copied.
async fn unless_silent<T>(
    round_max: Duration,
    copied_pages: &AtomicU64,
    round: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(round);
    loop {
        let copied = copied_pages.load(Relaxed);
        match timeout(round_max, &mut round).await {
            Ok(ended) => return Some(ended),
            Err(_) if copied_pages.load(Relaxed) > copied => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_clickhouse::QueryErrorKind::{Misconfigured, NoConnection};

    #[test]
    fn a_clickhouse_that_is_not_there_is_no_failure_of_the_first_minute() {
        let table = [
            (NoConnection, 0, true),
            (NoConnection, 59, true),
            (NoConnection, 60, false),
            (Misconfigured, 0, false),
        ];
        for (kind, seconds, expected) in table {
            let failure = Failure::Read(QueryError {
                kind,
                ..QueryError::without_code("refused")
            });
            let found = is_of_a_start(&failure, Duration::from_secs(seconds));
            assert_eq!(found, expected, "{kind:?} {seconds}");
        }
        assert!(!is_of_a_start(&Failure::Malformed, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_copies_pages_may_take_any_time_and_a_silent_one_ends() {
        for (pages, page_seconds, is_ended) in
            [(1_000, 600, true), (1, 600, true), (1, 1_000, false)]
        {
            let copied = AtomicU64::new(0);
            let round = async {
                for _ in 0..pages {
                    sleep(Duration::from_secs(page_seconds)).await;
                    copied.fetch_add(1, Relaxed);
                }
            };
            let ended = unless_silent(Duration::from_secs(900), &copied, round).await;
            assert_eq!(ended.is_some(), is_ended, "{pages} {page_seconds}");
        }
    }
}
