//! Backups and restores by ClickHouse itself: their folder, and the wait for their end.

use crate::config::{Config, Engine};
use crate::poll_timeout::PollTimeout;
use anyhow::{Context, bail};
use millrace_clickhouse::{ClickHouse, CopyId, CopyState};
use std::path::Path;
use std::time::Duration;

/// Pause between two checks of ClickHouse's progress.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Folder that the embedded ClickHouse writes backups to.
///
/// # Errors
/// When this is not the embedded default.
pub fn embedded_backup_dir(config: &Config) -> anyhow::Result<&Path> {
    let sqlite = config.data_dir.join("catalog.db");
    let is_default = config.database_url.contains(&*sqlite.to_string_lossy());
    if let (true, Engine::Embedded { backup_dir, .. }) = (is_default, &config.engine) {
        return Ok(backup_dir);
    }
    bail!(
        "this command is for the embedded ClickHouse and the SQLite catalog in the data folder; \
         back up a ClickHouse server and PostgreSQL with their own tools, ClickHouse first"
    )
}

/// Waits until ClickHouse has finished a backup or a restore.
///
/// # Errors
/// When ClickHouse gives up, or does not answer for a minute.
pub async fn wait_until_copied(clickhouse: &ClickHouse, id: CopyId) -> anyhow::Result<()> {
    let mut poll_timeout = PollTimeout::new();
    loop {
        let state = poll_timeout.check(clickhouse.copying(id).await);
        match state.context("ClickHouse does not report its progress")? {
            None | Some(CopyState::Running) => tokio::time::sleep(CHECK_INTERVAL).await,
            Some(CopyState::Done) => return Ok(()),
            Some(CopyState::Failed(reason)) => bail!("ClickHouse gave up: {reason}"),
        }
    }
}
