//! One round after the other: copy what is left, read, apply, copy.

use crate::gathering::{self, Batch, Gathered};
use crate::leader::Leader;
use crate::{copying, forgetting, metrics};
use millrace_catalog::{ApplyOptions, Catalog, CatalogError, PersonProgress, UtcTime};
use millrace_clickhouse::{ClickHouse, InsertError, QueryError};
use millrace_rows::Month;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::time::sleep;
use uuid::Uuid;

/// How often it is told how large the catalog is.
const MEASURE_EVERY: Duration = Duration::from_secs(60);

/// The pause between transactions of a round: other processes ask again and again for SQLite's lock, and
/// find it free in no pause of none.
const BETWEEN_TRANSACTIONS: Duration = Duration::from_millis(10);

/// How updates are applied.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Updates that are read at once, and applied in transactions of a bounded number of rows.
    pub updates_max: usize,
    /// Bytes of them.
    pub bytes_max: usize,
    /// How long to wait when there is nothing to do.
    pub look_every: Duration,
    /// How long to wait after a failure.
    pub retry_pause: Duration,
    /// How long a process may not be heard of before its lease lapses.
    pub lapse_after: Duration,
    /// How long updates are kept in ClickHouse once they were applied, and on to the end of their
    /// month.
    pub kept: Duration,
    /// Distinct ids and groups of a project that may become known by what arrives within an hour; none
    /// for no limit.
    pub new_ids_per_hour_max: Option<u64>,
    /// Distinct ids that a person may have to become part of another one; none for no limit.
    pub merged_ids_max: Option<u64>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            updates_max: 20_000,
            bytes_max: 32 << 20,
            look_every: Duration::from_millis(500),
            retry_pause: Duration::from_secs(2),
            lapse_after: Duration::from_secs(6),
            kept: Duration::from_secs(30 * 24 * 3_600),
            new_ids_per_hour_max: None,
            merged_ids_max: Some(10_000),
        }
    }
}

/// Why a round came to nothing; the next one begins where it began.
#[derive(Debug, Error)]
pub enum Failure {
    /// The catalog could not be read or written.
    #[error("the catalog: {0}")]
    Catalog(#[from] CatalogError),
    /// What events say could not be read, or not be forgotten.
    #[error("person_updates: {0}")]
    Read(#[from] QueryError),
    /// ClickHouse answered something else than rows.
    #[error("a row of person_updates cannot be read")]
    Malformed,
    /// What changed could not be copied.
    #[error("copying persons: {0}")]
    Copy(#[from] InsertError),
}

impl Failure {
    /// What stays the same for as long as the trouble does: ClickHouse repeats the statement, which
    /// differs from round to round.
    fn cause(&self) -> String {
        match self {
            Self::Read(error) => error.cause(),
            Self::Copy(error) => match error.code {
                Some(code) => format!("ClickHouse {code}"),
                None => error.outcome.name().to_owned(),
            },
            Self::Catalog(_) | Self::Malformed => self.to_string(),
        }
    }

    /// Whether ClickHouse has no tables yet, or not any more.
    fn tables_are_missing(&self) -> bool {
        match self {
            Self::Read(error) => error.schema_is_missing(),
            Self::Copy(error) => error.schema_is_missing(),
            Self::Catalog(_) | Self::Malformed => false,
        }
    }
}

/// Nobody extends the lease of persons any more, as that task panicked: they would stand still for ever.
#[derive(Debug, Error)]
#[error("the task that extends the lease of persons panicked")]
pub struct LeaseKeeperFailed;

/// What a round did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// There is more at once.
    More,
    /// All that may be applied is.
    Done,
}

/// Applies what events say of persons and groups.
#[derive(Debug)]
pub struct Worker {
    catalog: Catalog,
    clickhouse: ClickHouse,
    options: WorkerOptions,
    /// Cause of the failure that was told last, until a round succeeds.
    told: Mutex<Option<String>>,
}

impl Worker {
    /// On a catalog and a ClickHouse whose schemas are there, or will be.
    #[must_use]
    pub fn new(catalog: Catalog, clickhouse: ClickHouse, options: WorkerOptions) -> Self {
        metrics::describe();
        Self {
            catalog,
            clickhouse,
            options,
            told: Mutex::default(),
        }
    }

    /// Works whenever it leads, until it is stopped; then it ends the round and gives the lease
    /// back.
    ///
    /// # Errors
    /// When the lease is extended no more.
    pub async fn run(&self, stopped: impl Future<Output = ()>) -> Result<(), LeaseKeeperFailed> {
        let leader = Leader::start(
            self.catalog.clone(),
            Uuid::new_v4(),
            self.options.lapse_after,
        );
        let (mut forget_at, mut measure_at) = (Instant::now(), Instant::now());
        tokio::pin!(stopped);
        let outcome = loop {
            if Instant::now() >= measure_at {
                self.measure().await;
                measure_at = Instant::now() + MEASURE_EVERY;
            }
            let pause = if leader.now() {
                if Instant::now() >= forget_at {
                    self.forget_if_possible().await;
                    forget_at = Instant::now() + forgetting::EVERY;
                }
                self.led_round().await
            } else {
                metrics::no_lag();
                self.options.look_every
            };
            tokio::select! {
                () = &mut stopped => break Ok(()),
                () = leader.failed() => break Err(LeaseKeeperFailed),
                () = sleep(pause) => {}
            }
        };
        leader.end().await;
        outcome
    }

    /// Tells how large the catalog is, which is mostly persons. What is not known now is in a minute.
    async fn measure(&self) {
        if let Ok(bytes) = self.catalog.bytes().await {
            metrics::catalog_bytes(bytes);
        }
    }

    /// What is not forgotten now is later: nothing waits for it.
    async fn forget_if_possible(&self) {
        if let Err(failure) = self.forget().await {
            tracing::warn!(%failure, "old updates of persons stay; trying again in an hour");
        }
    }

    /// Drops the months of updates that nobody needs any more; answers them.
    ///
    /// # Errors
    /// When a database cannot be asked.
    pub async fn forget(&self) -> Result<Vec<Month>, Failure> {
        forgetting::forget(&self.catalog, &self.clickhouse, self.options.kept).await
    }

    /// A round; answers how long to wait for the next.
    async fn led_round(&self) -> Duration {
        let failure = match self.step().await {
            Ok((round, passed)) => {
                self.recovered();
                metrics::lag(passed);
                return match round {
                    Round::More => Duration::ZERO,
                    Round::Done => self.options.look_every,
                };
            }
            Err(failure) => failure,
        };
        let pause = if failure.tables_are_missing() {
            self.make_tables().await
        } else {
            if self.is_news(failure.cause()) {
                tracing::warn!(%failure, "persons are not up to date; trying again until they are");
            }
            self.options.retry_pause
        };
        // Without an answer the last one stands.
        if let Ok(passed) = self.catalog.persons_watermark().await {
            metrics::lag(passed);
        }
        pause
    }

    /// At a first start it may be earlier than who ships events. Answers how long to wait.
    async fn make_tables(&self) -> Duration {
        match self.clickhouse.migrate().await {
            Ok(()) => self.options.look_every,
            Err(error) => {
                let cause = error
                    .query_error()
                    .map_or_else(|| error.to_string(), QueryError::cause);
                if self.is_news(cause) {
                    tracing::warn!(%error, "the tables of persons cannot be made; trying again until they are");
                }
                self.options.retry_pause
            }
        }
    }

    /// Whether a failure has another cause than the one before it: each is told once.
    fn is_news(&self, cause: String) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.replace(cause.clone()) != Some(cause)
    }

    fn recovered(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.take().is_some() {
            tracing::info!("persons are kept again");
        }
    }

    /// Brings the catalog and ClickHouse one step further. Whoever leads at the same time does no
    /// harm: of two that apply the same, one finds that it is late.
    ///
    /// # Errors
    /// When a database cannot be asked.
    pub async fn round(&self) -> Result<Round, Failure> {
        Ok(self.step().await?.0)
    }

    /// A round, and the arrival time before which all is applied and copied behind it.
    async fn step(&self) -> Result<(Round, Option<UtcTime>), Failure> {
        let progress = self.catalog.person_progress().await?;
        if progress.copied < progress.version {
            self.copy(&progress).await?;
        }
        let watermark = self.catalog.exports_watermark().await?;
        metrics::backlogs(progress.backlogs.len());
        let Some(watermark) = watermark else {
            return Ok((Round::Done, progress.watermark()));
        };
        if progress.passed >= Some(watermark) && progress.backlogs.is_empty() {
            // Nothing may be applied that is not.
            return Ok((Round::Done, progress.passed));
        }
        let limits = (self.options.updates_max, self.options.bytes_max);
        let gathered = gathering::gather(&self.clickhouse, &progress, watermark, limits).await?;
        let batch = match gathered {
            Gathered::Batch(batch) => batch,
            Gathered::TooMuchOf(teams, batch) => {
                let deferred = self.catalog.defer_persons(&progress, &teams).await?;
                if deferred > 0 {
                    tracing::debug!(
                        ?teams,
                        "what events of a project say of persons waits apart"
                    );
                    return Ok((Round::More, progress.watermark()));
                }
                // They are gone, or somebody else was at it.
                batch
            }
        };
        self.apply(progress, &batch, watermark).await
    }

    /// Applies what was gathered, copies what it changed, and notes who is how far.
    async fn apply(
        &self,
        progress: PersonProgress,
        batch: &Batch,
        watermark: UtcTime,
    ) -> Result<(Round, Option<UtcTime>), Failure> {
        let (mut at, mut count) = (progress, 0);
        let options = ApplyOptions {
            before: Some(watermark),
            new_ids_per_hour_max: self.options.new_ids_per_hour_max,
            merged_ids_max: self.options.merged_ids_max,
        };
        while let Some(left @ [_, ..]) = batch.updates.get(count..) {
            if count > 0 {
                sleep(BETWEEN_TRANSACTIONS).await;
            }
            let applying = self.catalog.apply_person_updates(&at, left, options);
            let Some(applied) = applying.await? else {
                // Somebody else was at it.
                return Ok((Round::More, at.watermark()));
            };
            metrics::applied(&applied);
            (at, count) = (applied.progress, count + applied.count);
        }
        if count > 0 {
            self.copy(&at).await?;
        }
        let has_all = batch.has_all_others(count);
        if has_all {
            self.catalog.note_persons_passed(&at, watermark).await?;
            at.passed = at.passed.max(Some(watermark));
        }
        let caught_up = batch.caught_up(count);
        // Those who are as far as all the others are.
        let rejoin = at.passed == Some(watermark);
        let noting = self
            .catalog
            .rejoin_persons(&at, &caught_up, watermark, rejoin);
        noting.await?;
        let is_done = has_all && caught_up.len() == at.backlogs.len();
        if is_done && rejoin {
            return Ok((Round::Done, at.passed));
        }
        let round = if is_done { Round::Done } else { Round::More };
        Ok((round, at.watermark()))
    }

    async fn copy(&self, progress: &PersonProgress) -> Result<(), Failure> {
        copying::copy(&self.catalog, &self.clickhouse, progress.copied).await?;
        self.catalog.note_persons_copied(progress.version).await?;
        Ok(())
    }
}
