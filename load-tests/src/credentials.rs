//! Credentials file that the server writes on its first start.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::Path;

/// Addresses, keys and passwords of a server; other fields of the file are ignored.
#[derive(Clone, Debug, Deserialize)]
pub struct Credentials {
    /// URL of the capture endpoint.
    pub ingest_url: String,
    /// URL of ClickHouse.
    pub clickhouse_url: String,
    /// ClickHouse user who may read events.
    pub clickhouse_user: String,
    /// Password of the ClickHouse user.
    pub clickhouse_password: String,
    /// URL of health and metrics; empty for an engine alone.
    #[serde(default)]
    pub health_url: String,
    /// Key of the first project.
    pub project_api_key: String,
    /// URL of the organization API; empty for a process without one.
    #[serde(default)]
    pub admin_url: String,
    /// Personal API key of the owner; empty once it is removed from the file.
    #[serde(default)]
    pub personal_api_key: String,
}

impl Credentials {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or is not the expected JSON.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path)
            .with_context(|| format!("cannot read {}; is the server running?", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a credentials file", path.display()))
    }
}
