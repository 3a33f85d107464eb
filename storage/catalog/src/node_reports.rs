//! Reports of nodes about themselves, and how long each has been silent.
//!
//! | State | The node |
//! |---|---|
//! | starting | was heard of, and has published no watermark yet |
//! | running | was heard of in the last [`SILENT_AFTER`] |
//! | silent | was not, for up to [`LOST_AFTER`] |
//! | lost | was not for longer: its log may have events that are nowhere else |
//! | stopped | ended with an empty log |
//!
//! A report has the time of the database's clock, so the clocks of nodes do not matter. A node that
//! has not reported yet is heard of by its watermark, which has the time of its own.

use crate::catalog::Catalog;
use crate::database_clock::micros;
use crate::entities::ingest_nodes::{self, NodeState};
use crate::entities::node_reports::{self as reports, Model};
use crate::error::CatalogError;
use crate::ingest_nodes::Nodes;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue, EntityTrait};
use std::collections::HashMap;
use std::time::Duration;

/// Time unheard of after which a node is silent: three times the interval of reports.
pub const SILENT_AFTER: Duration = Duration::from_secs(15);
/// Time unheard of after which a node is lost.
pub const LOST_AFTER: Duration = Duration::from_secs(120);

/// Report of a node about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Address at which it accepts events.
    pub address: String,
    /// Version of its program.
    pub version: String,
    /// Bytes in its log that are not in ClickHouse yet.
    pub log_bytes: u64,
}

/// State of a node, by when it was last heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It has published no watermark yet.
    Starting,
    /// It was heard of lately.
    Running,
    /// It was not heard of for [`SILENT_AFTER`].
    Silent,
    /// It was not heard of for [`LOST_AFTER`].
    Lost,
    /// It ended with an empty log.
    Stopped,
}

/// Node, with its last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// Row of the node.
    pub node: ingest_nodes::Model,
    /// Last report; `None` of a version before reports.
    pub report: Option<Model>,
    /// Time since the node was last heard of, in microseconds.
    pub unheard_micros: i64,
}

/// Reports of nodes.
#[derive(Clone, Copy, Debug)]
pub struct NodeReports<'a>(&'a Catalog);

impl Liveness {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Starting,
        Self::Running,
        Self::Silent,
        Self::Lost,
        Self::Stopped,
    ];

    /// Name of the state, for people and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Silent => "silent",
            Self::Lost => "lost",
            Self::Stopped => "stopped",
        }
    }
}

impl NodeStatus {
    /// State of the node.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        match self.node.state {
            NodeState::Stopped => Liveness::Stopped,
            _ if self.unheard_micros >= micros(LOST_AFTER) => Liveness::Lost,
            _ if self.unheard_micros >= micros(SILENT_AFTER) => Liveness::Silent,
            NodeState::Starting => Liveness::Starting,
            NodeState::Running => Liveness::Running,
        }
    }

    /// Time since the node was last heard of, in seconds; 0 once it has stopped.
    #[must_use]
    pub fn unheard_seconds(&self) -> i64 {
        match self.node.state {
            NodeState::Stopped => 0,
            NodeState::Starting | NodeState::Running => self.unheard_micros / 1_000_000,
        }
    }

    /// Bytes in the node's log that are not in ClickHouse, as it last said; none once it has
    /// stopped.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        let report = self.report.as_ref();
        let report = report.filter(|_| self.node.state != NodeState::Stopped);
        report.map_or(0, |report| u64::try_from(report.log_bytes).unwrap_or(0))
    }
}

impl<'a> NodeReports<'a> {
    /// Returns a handle to the reports in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl NodeReports<'_> {
    /// Writes the report of a registered node, in place of the one before.
    ///
    /// # Errors
    ///
    /// Any database error; one is that there is no such node.
    pub async fn report(self, name: &str, report: &NodeReport) -> Result<(), CatalogError> {
        let heard_at = self.0.shared_now(&self.0.db).await;
        let heard_at = heard_at.map_err(|error| self.0.error(&error))?;
        let row = reports::ActiveModel {
            name: ActiveValue::Set(name.to_owned()),
            address: ActiveValue::Set(report.address.clone()),
            version: ActiveValue::Set(report.version.clone()),
            log_bytes: ActiveValue::Set(i64::try_from(report.log_bytes).unwrap_or(i64::MAX)),
            heard_at: ActiveValue::Set(heard_at),
        };
        let mut again = OnConflict::column(reports::Column::Name);
        again.update_columns([
            reports::Column::Address,
            reports::Column::Version,
            reports::Column::LogBytes,
            reports::Column::HeardAt,
        ]);
        let written = reports::Entity::insert(row)
            .on_conflict(again)
            .exec_without_returning(&self.0.writer)
            .await;
        written.map(drop).map_err(|error| self.0.error(&error))
    }

    /// Lists all nodes with their reports, by name.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(self) -> Result<Vec<NodeStatus>, CatalogError> {
        let nodes = Nodes::new(self.0).list().await?;
        let found = reports::Entity::find().all(&self.0.db).await;
        let found = found.map_err(|error| self.0.error(&error))?;
        let mut found: HashMap<String, Model> = found
            .into_iter()
            .map(|report| (report.name.clone(), report))
            .collect();
        let now = self.now().await?;
        let status = |node: ingest_nodes::Model| {
            let report = found.remove(&node.name);
            self.status(node, report, now)
        };
        Ok(nodes.into_iter().map(status).collect())
    }

    /// Finds a node with its report.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(self, name: &str) -> Result<Option<NodeStatus>, CatalogError> {
        let Some(node) = Nodes::new(self.0).get(name).await? else {
            return Ok(None);
        };
        let report = reports::Entity::find_by_id(name.to_owned())
            .one(&self.0.db)
            .await;
        let report = report.map_err(|error| self.0.error(&error))?;
        let now = self.now().await?;
        Ok(Some(self.status(node, report, now)))
    }

    async fn now(self) -> Result<i64, CatalogError> {
        let now = self.0.shared_now(&self.0.db).await;
        now.map_err(|error| self.0.error(&error))
    }

    /// Status of a node; `now` is the time of the database's clock.
    fn status(self, node: ingest_nodes::Model, report: Option<Model>, now: i64) -> NodeStatus {
        let unheard = match &report {
            Some(report) => now.saturating_sub(report.heard_at),
            None => self.0.now().0.saturating_sub(node.published_at.0),
        };
        NodeStatus {
            node,
            report,
            unheard_micros: unheard.max(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::UtcTime;

    #[test]
    fn a_node_is_silent_after_fifteen_seconds_and_lost_after_two_minutes() {
        #[rustfmt::skip]
        let table = [
            (NodeState::Starting, 0, Liveness::Starting),
            (NodeState::Starting, 15, Liveness::Silent),
            (NodeState::Running, 14, Liveness::Running),
            (NodeState::Running, 15, Liveness::Silent),
            (NodeState::Running, 119, Liveness::Silent),
            (NodeState::Running, 120, Liveness::Lost),
            (NodeState::Stopped, 9_000, Liveness::Stopped),
        ];
        for (state, seconds, expected) in table {
            let status = NodeStatus {
                node: ingest_nodes::Model {
                    name: "n".to_owned(),
                    host: "h".to_owned(),
                    state,
                    watermark: None,
                    updates_watermark: None,
                    published_at: UtcTime(0),
                    started_at: UtcTime(0),
                    start_count: 0,
                    start_id: String::new(),
                },
                report: None,
                unheard_micros: seconds * 1_000_000,
            };
            assert_eq!(status.liveness(), expected, "{state:?} {seconds}");
        }
    }
}
