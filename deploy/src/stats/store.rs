//! Numbers of events as the API's trait asks for them.

use crate::config::Config;
use crate::connect;
use async_trait::async_trait;
use millrace_admin::project_stats::{
    EventCounts, ProjectStats, StatsAnswer, StatsFailure, StatsGrouping, StatsQuestion, StatsSum,
};
use millrace_catalog::UtcTime;
use millrace_clickhouse::{ClickHouse, QueryError, StatsQuery, StatsRow};
use millrace_rows::RareLog;
use std::time::Instant;

/// Most seconds of a query: the API answers within thirty.
const QUERY_SECONDS_MAX: u32 = 20;
/// Codes of ClickHouse for limits of time and memory.
const LIMIT_CODES: [u32; 3] = [159, 160, 241];
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Numbers of events in the ClickHouse of a configuration.
#[derive(Debug)]
pub struct StatsStore {
    config: Config,
    failures: RareLog,
}

impl StatsStore {
    /// Numbers by these settings. Does not connect yet.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            failures: RareLog::default(),
        }
    }

    /// Logs a cause that the operator has to know, and clients are told nothing of.
    fn unavailable(&self, cause: &str) -> StatsFailure {
        if self.failures.is_due(cause, Instant::now()) {
            tracing::warn!(cause, "numbers of events cannot be read");
        }
        StatsFailure::Unavailable
    }

    fn failed(&self, error: &QueryError) -> StatsFailure {
        match error.code {
            Some(code) if LIMIT_CODES.contains(&code) => StatsFailure::LimitExceeded,
            _ => self.unavailable(&error.cause()),
        }
    }

    fn clickhouse(&self) -> Result<ClickHouse, StatsFailure> {
        let clickhouse = connect::clickhouse(&self.config);
        clickhouse.map_err(|error| self.unavailable(&format!("{error:#}")))
    }
}

#[async_trait]
impl ProjectStats for StatsStore {
    async fn read(&self, question: StatsQuestion) -> Result<StatsAnswer, StatsFailure> {
        let clickhouse = self.clickhouse()?;
        let progress = clickhouse.stats_progress().await;
        let progress = progress.map_err(|error| self.failed(&error))?;
        // Counting begins within a minute of the first start.
        let progress = progress.ok_or(StatsFailure::Unavailable)?;
        let query = StatsQuery {
            step_seconds: u32::try_from(question.step.seconds()).unwrap_or(u32::MAX),
            seconds: seconds(question.after)..seconds(question.before),
            grouping: grouping(question.grouping),
            project_ids: question.project_ids,
            progress,
            seconds_max: QUERY_SECONDS_MAX,
        };
        let rows = clickhouse.stats(&query).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        Ok(StatsAnswer {
            since: time(progress.since),
            accepted_until: time(progress.accepted),
            rejected_until: time(progress.rejected),
            sums: rows.into_iter().map(sum).collect(),
        })
    }
}

fn sum(row: StatsRow) -> StatsSum {
    StatsSum {
        at: time(i64::from(row.at)),
        name: row.name,
        counts: EventCounts {
            accepted: row.accepted,
            rejected: row.rejected,
            historical: row.historical,
            bytes: row.bytes,
        },
    }
}

const fn grouping(grouping: StatsGrouping) -> millrace_clickhouse::StatsGrouping {
    use millrace_clickhouse::StatsGrouping as Stored;
    match grouping {
        StatsGrouping::None => Stored::None,
        StatsGrouping::Project => Stored::Project,
        StatsGrouping::EachProject => Stored::EachProject,
        StatsGrouping::Event => Stored::Event,
        StatsGrouping::Sdk => Stored::Sdk,
        StatsGrouping::Code => Stored::Code,
    }
}

const fn seconds(at: UtcTime) -> i64 {
    at.0.div_euclid(MICROS_PER_SECOND)
}

const fn time(seconds: i64) -> UtcTime {
    UtcTime(seconds.saturating_mul(MICROS_PER_SECOND))
}
