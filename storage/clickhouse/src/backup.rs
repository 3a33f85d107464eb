//! Backups of the whole database in a folder of the server's machine, by the server's own `BACKUP`
//! and `RESTORE`. Both run in the background and are watched, since they may take hours.

use crate::nonce::Nonce;
use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
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
        let nonce = Nonce::new();
        let query = self.proving().query_raw(&nonce.put_into(&sql));
        let answer = query.fetch_optional::<(String, u8, u8, String)>();
        let Some((answered, is_over, is_done, error)) = self.within_deadline(answer).await? else {
            return Ok(CopyState::Failed("the server has restarted".to_owned()));
        };
        nonce.check(&answered)?;
        Ok(match (is_over, is_done) {
            (0, _) => CopyState::Running,
            (_, 0) => {
                // Only addresses in the server's program follow.
                let error = error.split(", Stack trace").next();
                CopyState::Failed(error.unwrap_or_default().to_owned())
            }
            _ => CopyState::Done,
        })
    }
}
