//! List of nodes for people and programs: state, address, version, and what waits in each log.

use millrace_catalog::{
    Catalog, CatalogError, IngestNode, NodeReports, NodeState, NodeStatus, Nodes, UtcTime,
};
use serde::Serialize;

/// Nodes of a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeList {
    pub nodes: Vec<NodeView>,
    /// Time up to which exports may go; `None` while they wait for nodes that are starting.
    pub exports_watermark: Option<UtcTime>,
}

/// Node, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeView {
    pub name: String,
    pub host: String,
    /// Address at which it accepts events; `None` of a version that does not say so.
    pub address: Option<String>,
    pub version: Option<String>,
    /// `starting`, `running`, `silent`, `lost` or `stopped`.
    pub state: &'static str,
    /// Time since it was last heard of.
    pub unheard_seconds: i64,
    /// Bytes in its log that are not in ClickHouse, as it last said.
    pub log_bytes: u64,
    /// Age of what is longest in its log, at most.
    pub log_age_seconds: i64,
    /// Time before which all its events are in ClickHouse.
    pub watermark: Option<UtcTime>,
    /// Time by which exports are behind for this node.
    pub behind_seconds: i64,
    pub started_at: UtcTime,
}

impl NodeList {
    /// Reads the nodes of a catalog.
    ///
    /// # Errors
    /// Any error of the catalog.
    pub async fn read(catalog: &Catalog) -> Result<Self, CatalogError> {
        let statuses = NodeReports::new(catalog).list().await?;
        Self::of(catalog, &statuses).await
    }

    /// List of nodes that were read.
    ///
    /// # Errors
    /// Any error of the catalog.
    pub async fn of(catalog: &Catalog, statuses: &[NodeStatus]) -> Result<Self, CatalogError> {
        let now = catalog.now();
        let far = Nodes::new(catalog).exports_watermark().await?;
        Ok(Self {
            nodes: statuses.iter().map(|it| NodeView::of(it, now)).collect(),
            exports_watermark: far,
        })
    }
}

impl NodeView {
    fn of(status: &NodeStatus, now: UtcTime) -> Self {
        let (node, report) = (&status.node, status.report.as_ref());
        let behind = behind_seconds(node, now);
        let log_bytes = status.log_bytes();
        let is_empty = report.is_some() && log_bytes == 0;
        Self {
            name: node.name.clone(),
            host: node.host.clone(),
            address: report.map(|report| report.address.clone()),
            version: report.map(|report| report.version.clone()),
            state: status.liveness().name(),
            unheard_seconds: status.unheard_seconds(),
            log_bytes,
            log_age_seconds: if is_empty { 0 } else { behind },
            watermark: node.watermark,
            behind_seconds: behind,
            started_at: node.started_at,
        }
    }
}

/// Seconds by which a node holds up exports.
pub fn behind_seconds(node: &IngestNode, now: UtcTime) -> i64 {
    let far = match node.state {
        NodeState::Stopped => return 0,
        // It has published no watermark since this start.
        NodeState::Starting => node.started_at,
        NodeState::Running => node.watermark.unwrap_or(node.started_at),
    };
    now.0.saturating_sub(far.0).max(0) / 1_000_000
}
