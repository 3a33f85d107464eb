//! The projects with most events in the last minutes that are counted, and the sum of all others.

use super::{MINUTE_SECONDS, STATS, StatsKind, StatsProgress, begins_within, last_counted};
use crate::{ClickHouse, QueryError};
use serde::Deserialize;

/// Most seconds of the query.
const QUERY_SECONDS_MAX: u32 = 10;

/// Sums of a project, or of all that are not among the largest.
#[derive(clickhouse::Row, Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct LargestProject {
    /// Id of the project; 0 for all that are not among the largest.
    pub project_id: i64,
    /// Number of accepted events.
    pub accepted: u64,
    /// Number of rejected events.
    pub rejected: u64,
    /// Bytes of the properties of accepted events.
    pub bytes: u64,
}

impl ClickHouse {
    /// Reads the sums of the `projects_max` projects with most events in the last so many seconds
    /// that are counted, the largest first, and of all others. Accepted and rejected events have
    /// each their own last seconds, as they are counted up to different times.
    ///
    /// # Errors
    /// If the server cannot be asked, or takes longer than ten seconds.
    pub async fn largest_projects(
        &self,
        progress: &StatsProgress,
        seconds: u32,
        projects_max: u32,
    ) -> Result<Vec<LargestProject>, QueryError> {
        let sql = statement(&self.source_named(STATS), progress, seconds, projects_max);
        let asked = self.seeing_quorum(self.client().query_raw(&sql));
        self.within_deadline(asked.fetch_all()).await
    }
}

fn statement(table: &str, progress: &StatsProgress, seconds: u32, projects_max: u32) -> String {
    let kinds = StatsKind::ALL.map(|kind| {
        let end = progress.of(kind);
        let is_within = begins_within(&(end - i64::from(seconds)..end));
        format!("({} AND {is_within})", kind.condition())
    });
    let condition = format!(
        "step_seconds = {MINUTE_SECONDS} AND ({})",
        kinds.join(" OR ")
    );
    format!(
        "SELECT toInt64(if(place <= {projects_max}, team_id, 0)) AS project, \
         sum(a) AS all_accepted, sum(r) AS all_rejected, sum(b) AS all_bytes \
         FROM (SELECT *, row_number() OVER (ORDER BY a + r DESC, team_id) AS place \
         FROM (SELECT team_id, sumIf(events, code = '') AS a, sumIf(events, code != '') AS r, \
         sumIf(bytes, code = '') AS b FROM {rows} GROUP BY team_id)) \
         GROUP BY project ORDER BY project = 0, all_accepted + all_rejected DESC, project \
         SETTINGS max_threads = 2, max_memory_usage = 1073741824, \
         max_execution_time = {QUERY_SECONDS_MAX}",
        rows = last_counted(table, &condition),
    )
}
