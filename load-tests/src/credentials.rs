//! The file that the server writes on its first start.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::Path;

/// Where the server is and who may write and read; other keys of the file are ignored.
#[derive(Clone, Debug, Deserialize)]
pub struct Credentials {
    /// Where events are sent.
    pub ingest_url: String,
    /// Where they end up.
    pub clickhouse_url: String,
    /// Who may read them.
    pub clickhouse_user: String,
    /// And with which password.
    pub clickhouse_password: String,
    /// Where its health and metrics are; empty for an engine alone.
    #[serde(default)]
    pub health_url: String,
    /// The project's key.
    pub project_api_key: String,
    /// Where the organization API is; empty for a process without one.
    #[serde(default)]
    pub admin_url: String,
    /// The owner's key, as long as the file has it.
    #[serde(default)]
    pub personal_api_key: String,
}

impl Credentials {
    /// Reads the file.
    ///
    /// # Errors
    /// Unreadable, or not the JSON that is expected.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path)
            .with_context(|| format!("cannot read {}; is the server running?", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a credentials file", path.display()))
    }
}
