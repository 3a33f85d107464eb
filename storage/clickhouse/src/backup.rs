//! Backups of the whole database in a folder of the server's machine, by the server's own `BACKUP`
//! and `RESTORE`. Both run in the background and are watched, since they may take hours.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use serde::Deserialize;
use uuid::Uuid;

/// State of a backup or restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// The copy goes on.
    Running,
    /// The copy is complete.
    Done,
    /// The copy failed, with the server's message.
    Failed(String),
}

/// Id of a backup or restore that was started.
#[derive(Clone, Copy, Debug)]
pub struct CopyId(Uuid);

/// Row of `system.backups`.
#[derive(clickhouse::Row, Deserialize)]
struct State {
    is_over: bool,
    is_done: bool,
    error: String,
}

impl ClickHouse {
    /// Starts a backup into a folder that must not exist, given by its absolute path. Everything
    /// that was stored before the call is in it.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn backup(&self, folder: &str) -> Result<CopyId, QueryError> {
        self.start_copy("BACKUP", "TO", folder).await
    }

    /// Starts the restore of a backup. Existing tables must be as in the backup and empty.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn restore(&self, folder: &str) -> Result<CopyId, QueryError> {
        self.start_copy("RESTORE", "FROM", folder).await
    }

    async fn start_copy(&self, verb: &str, way: &str, folder: &str) -> Result<CopyId, QueryError> {
        let id = Uuid::new_v4();
        self.execute(&format!(
            "{verb} DATABASE {database} {way} File({folder}) SETTINGS id = '{id}' ASYNC",
            database = quoted_name(&self.settings.database),
            folder = quoted_text(folder),
        ))
        .await?;
        Ok(CopyId(id))
    }

    /// Returns the state of a backup or restore. The server knows it until it restarts.
    ///
    /// # Errors
    /// If the server cannot be asked, or has restarted since.
    pub async fn copying(&self, copy: CopyId) -> Result<CopyState, QueryError> {
        let sql = format!(
            "SELECT status NOT IN ('CREATING_BACKUP', 'RESTORING') AS is_over, \
             status IN ('BACKUP_CREATED', 'RESTORED') AS is_done, error \
             FROM system.backups WHERE id = '{}'",
            copy.0
        );
        let query = self.client().query_raw(&sql).fetch_optional::<State>();
        match self.within_deadline(query).await? {
            None => Ok(CopyState::Failed("the server has restarted".to_owned())),
            Some(state) if !state.is_over => Ok(CopyState::Running),
            Some(state) if state.is_done => Ok(CopyState::Done),
            Some(state) => {
                // Only addresses in the server's program follow.
                let error = state.error.split(", Stack trace").next();
                Ok(CopyState::Failed(error.unwrap_or_default().to_owned()))
            }
        }
    }
}
