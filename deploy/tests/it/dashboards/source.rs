//! Source of the dashboards: `deploy/grafana/dashboards.toml`.

use crate::tidy::root;
use serde::Deserialize;
use std::path::PathBuf;

/// Folder of the dashboards.
pub fn folder() -> PathBuf {
    root().join("deploy/grafana")
}

/// Reads all dashboards.
pub fn dashboards() -> Vec<Dashboard> {
    #[derive(Deserialize)]
    struct Source {
        dashboard: Vec<Dashboard>,
    }
    let text = std::fs::read_to_string(folder().join("dashboards.toml")).unwrap();
    let source: Source = toml::from_str(&text).unwrap();
    source.dashboard
}

/// Dashboard: rows of panels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dashboard {
    /// Name of its file, without ending.
    pub file: String,
    pub title: String,
    pub description: String,
    pub row: Vec<Row>,
}

/// Row of panels under a title.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub title: String,
    pub panel: Vec<Panel>,
}

/// Panel: one or more queries, shown in one unit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    pub title: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub kind: Kind,
    /// Unit by Grafana's name.
    pub unit: String,
    pub queries: Vec<Query>,
}

/// Form in which a panel shows its queries.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Lines over time.
    #[default]
    Graph,
    /// Areas over time, one on the other.
    Stack,
    /// Last value.
    Stat,
    /// Legend of the last value.
    Name,
}

/// Query in PromQL, and the name of its lines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub expr: String,
    pub legend: String,
}
