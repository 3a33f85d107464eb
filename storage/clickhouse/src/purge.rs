//! Purges the rows of deleted projects, for the operator's tools.
//!
//! Deleting rewrites the parts that hold such rows. The server does that in the background and goes
//! on after a restart, so it is started and then watched.

use crate::dialect::Dialect;
use crate::nonce::Nonce;
use crate::rejected_events::RESENT;
use crate::settings::{quoted_name, quoted_text};
use crate::stats::STATS;
use crate::{ClickHouse, PersonTable, QueryError};
use millrace_rows::{ProjectId, Table};
use serde::Deserialize;

/// Tables with rows of projects.
fn tables() -> impl Iterator<Item = &'static str> {
    let shipped = Table::ALL.into_iter().map(Table::name);
    let shipped = shipped.chain([RESENT]);
    shipped.chain(PersonTable::ALL.into_iter().map(PersonTable::name))
}

/// Number of rows of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectRows {
    /// The project.
    pub team_id: i64,
    /// Rows of the project, rejected events included; rows that merges have yet to fold count each
    /// time.
    pub rows: u64,
}

/// Progress of the server with deleting.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// Parts still to be rewritten.
    pub parts_to_do: u64,
    /// Deletions that have not ended.
    pub unfinished: u64,
    /// Reason why the last part could not be rewritten; empty when nothing failed. The server tries
    /// again by itself.
    pub failure: String,
}

/// Projects that have rows, and their numbers of rows, in the same order: one row, as an answer
/// without any would have no nonce.
#[derive(clickhouse::Row, Deserialize)]
struct StoredProjects {
    nonce: String,
    ids: Vec<i64>,
    counts: Vec<u64>,
}

impl ClickHouse {
    /// Lists the projects that have rows, lowest id first.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn projects_with_rows(&self) -> Result<Vec<ProjectRows>, QueryError> {
        let of_table = |table: &str| {
            let table = self.source_named(table);
            format!("SELECT team_id, count() AS n FROM {table} GROUP BY team_id")
        };
        let sql = format!(
            "SELECT groupArray(team_id) AS ids, groupArray(rows) AS counts FROM (\
             SELECT team_id, sum(n) AS rows FROM ({}) GROUP BY team_id)",
            tables()
                .map(of_table)
                .collect::<Vec<_>>()
                .join(" UNION ALL "),
        );
        let nonce = Nonce::new();
        let query = self.proving().query_raw(&nonce.put_into(&sql));
        let answer = self.seeing_quorum(query).fetch_one();
        let stored: StoredProjects = self.within_deadline(answer).await?;
        nonce.check(&stored.nonce)?;
        let projects = stored.ids.into_iter().zip(stored.counts);
        let projects = projects.map(|(team_id, rows)| ProjectRows { team_id, rows });
        let mut projects: Vec<ProjectRows> = projects.collect();
        projects.sort_unstable_by_key(|project| project.team_id);
        Ok(projects)
    }

    /// Starts the deletion of all rows of some projects. Safe to repeat; [`ClickHouse::deletion`]
    /// tells when it is done, and [`ClickHouse::projects_with_rows`] whether rows are left: a
    /// gateway may have answered in ClickHouse's place.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses; deletions started before go on.
    pub async fn delete_projects(&self, project_ids: &[ProjectId]) -> Result<(), QueryError> {
        if project_ids.is_empty() {
            return Ok(());
        }
        let project_ids: Vec<String> = project_ids
            .iter()
            .map(|project| project.0.to_string())
            .collect();
        // Sums alone make no project one with rows: they end by themselves, and one that is still
        // written would bring a purged project back.
        for table in tables().chain([STATS]) {
            self.execute_on_hosts(&format!(
                "ALTER TABLE {database}.{table}{on_cluster} DELETE WHERE team_id IN ({project_ids}) \
                 SETTINGS mutations_sync = 0",
                database = quoted_name(&self.settings.database),
                table = quoted_name(&self.local_name(table)),
                on_cluster = self.on_cluster(),
                project_ids = project_ids.join(", "),
            ))
            .await?;
        }
        Ok(())
    }

    /// Asks for the progress of deletions.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn deletion(&self) -> Result<Deletion, QueryError> {
        let mutations = self.on_every_host("mutations");
        let sql = format!(
            "SELECT toUInt64(sum(parts_to_do)) AS parts_to_do, count() AS unfinished, \
             max(latest_fail_reason) AS failure \
             FROM {mutations} WHERE database = {database} AND NOT is_done AND NOT is_killed",
            database = quoted_text(&self.settings.database),
        );
        let nonce = Nonce::new();
        let answer = self.proving().query_raw(&nonce.put_into(&sql)).fetch_one();
        let (answered, parts_to_do, unfinished, failure): (String, u64, u64, String) =
            self.within_deadline(answer).await?;
        nonce.check(&answered)?;
        Ok(Deletion {
            parts_to_do,
            unfinished,
            failure,
        })
    }

    /// Clause that sends a statement to every host of a cluster.
    pub(crate) fn on_cluster(&self) -> String {
        Dialect::of(&self.settings).on_cluster()
    }

    /// Name of the table that has the rows: on shards, those of one of them.
    pub(crate) fn local_name(&self, table: &str) -> String {
        match PersonTable::ALL.iter().any(|it| it.name() == table) {
            true => table.to_owned(),
            false => Dialect::of(&self.settings).local(table),
        }
    }
}
