//! Rows of persons and groups.
//!
//! A person has a row for each of its distinct ids, with its current state. The row is in the
//! window of the last change, by the arrival of the event that caused it: so the rows of all
//! windows together are upserts by distinct id, of which the higher version wins.

use super::WindowQuery;
use crate::window::{Window, WindowBy};
use millrace_clickhouse::PersonTable;

impl WindowQuery<'_> {
    /// Distinct ids of the project, with their persons, that changed in the window.
    pub(super) fn persons(&self, of_part: Option<String>) -> String {
        let project_id = self.scope.project_id.0;
        let ids = self.clickhouse.person_source(PersonTable::DistinctIds);
        let persons = self.clickhouse.person_source(PersonTable::Persons);
        // Both versions are arrival times, in microseconds since 1970.
        let mut conditions = changed(&self.scope.window, "greatest(d.version, p.version)", "p.");
        conditions.extend(of_part);
        let conditions = conditions.join(" AND ");
        format!(
            "SELECT d.team_id AS team_id, d.distinct_id AS distinct_id, \
             d.person_id AS person_id, p.properties AS properties, \
             p.is_identified AS is_identified, p.created_at AS created_at, \
             d.version AS person_distinct_id_version, p.version AS person_version, \
             greatest(d.version, p.version) AS version \
             FROM (SELECT * FROM {ids} FINAL WHERE team_id = {project_id}) AS d \
             INNER JOIN (SELECT * FROM {persons} FINAL WHERE team_id = {project_id}) AS p \
             ON d.person_id = p.id WHERE {conditions}"
        )
    }

    /// Groups of the project that changed in the window.
    pub(super) fn groups(&self, of_part: Option<String>) -> String {
        let project_id = self.scope.project_id.0;
        let groups = self.clickhouse.person_source(PersonTable::Groups);
        let mut conditions = changed(&self.scope.window, "version", "");
        conditions.extend(of_part);
        let conditions = conditions.join(" AND ");
        format!(
            "SELECT team_id, CAST(group_type, 'String') AS group_type, group_key, properties, created_at, \
             version FROM (SELECT * FROM {groups} FINAL WHERE team_id = {project_id}) WHERE {conditions}"
        )
    }
}

/// Conditions for rows of a window, by the columns that stand for arrival and time.
fn changed(window: &Window, version: &str, of: &str) -> Vec<String> {
    let made = format!("toUnixTimestamp64Micro({of}created_at)");
    let (column, arrived_before) = match window.by {
        WindowBy::Arrival => (version, None),
        WindowBy::Timestamp { arrived_before } => (made.as_str(), Some(arrived_before)),
    };
    let start = window.start.map(|start| format!("{column} >= {}", start.0));
    let end = format!("{column} < {}", window.end.0);
    let arrived = arrived_before.map(|before| format!("{version} < {}", before.0));
    start.into_iter().chain([end]).chain(arrived).collect()
}
