//! Rates of the projects with most events, for the page of metrics. Nothing is counted for them:
//! they are read from the minutes that are counted in any case, once for each minute.

use crate::config::Config;
use crate::connect;
use crate::scraped::{PROJECTS_MAX, ProjectRate, clear_projects, publish_projects};
use anyhow::Context;
use millrace_clickhouse::{LargestProject, MINUTE_SECONDS, StatsProgress};
use millrace_rows::RareLog;
use std::time::Instant;

/// Seconds that rates are averages of.
const SECONDS: u32 = 5 * MINUTE_SECONDS;
/// Age in seconds from which on counted minutes are no rates of now: a node holds the watermark.
const AGE_SECONDS_MAX: i64 = 600;

/// Rates on the page of metrics, and the time that they are of.
#[derive(Debug, Default)]
pub struct PublishedRates {
    of: Option<StatsProgress>,
    failures: RareLog,
}

impl PublishedRates {
    /// Publishes the rates of the last minutes that are counted, if these are others than before.
    /// Removes them if it is another process that counts, or nothing was counted of late.
    pub async fn update(
        &mut self,
        config: &Config,
        counted: Option<StatsProgress>,
        now_seconds: i64,
    ) {
        let counted = counted.filter(|counted| now_seconds - counted.accepted <= AGE_SECONDS_MAX);
        if counted == self.of {
            return;
        }
        let read = match &counted {
            Some(progress) => read(config, progress).await,
            None => Ok(Vec::new()),
        };
        match read {
            Ok(rates) => {
                publish_projects(rates);
                self.of = counted;
            }
            Err(error) => {
                clear_projects();
                self.of = None;
                let error = format!("{error:#}");
                if self.failures.is_due(&error, Instant::now()) {
                    tracing::warn!(error, "metrics have no numbers of projects");
                }
            }
        }
    }
}

async fn read(config: &Config, progress: &StatsProgress) -> anyhow::Result<Vec<ProjectRate>> {
    let clickhouse = connect::clickhouse(config)?;
    let largest = clickhouse.largest_projects(progress, SECONDS, PROJECTS_MAX);
    let largest = largest.await.context("cannot read the largest projects")?;
    Ok(largest.iter().map(rate).collect())
}

fn rate(sums: &LargestProject) -> ProjectRate {
    let a_second = |sum: u64| sum as f64 / f64::from(SECONDS);
    ProjectRate {
        project_id: (sums.project_id > 0).then_some(sums.project_id),
        accepted: a_second(sums.accepted),
        rejected: a_second(sums.rejected),
        bytes: a_second(sums.bytes),
    }
}
