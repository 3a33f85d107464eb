//! A copy of the whole database in a folder of the server's machine, and back, by the server's own
//! `BACKUP` and `RESTORE`. Both go on in the background and are watched, as they may take hours.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use serde::Deserialize;
use uuid::Uuid;

/// How far a copy has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// It goes on.
    Running,
    /// It is whole.
    Done,
    /// It was given up; what the server says.
    Failed(String),
}

/// A copy that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct CopyId(Uuid);

/// What the server says of it.
#[derive(clickhouse::Row, Deserialize)]
struct State {
    is_over: bool,
    is_done: bool,
    error: String,
}

impl ClickHouse {
    /// Asks for a copy into a folder that must not be there; its absolute path. Everything that
    /// was stored before the call is in it.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn backup(&self, folder: &str) -> Result<CopyId, QueryError> {
        self.start_copy("BACKUP", "TO", folder).await
    }

    /// Asks for such a copy to be read back. Tables that are there must be as in the copy and
    /// empty.
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

    /// How far it has come. The server knows for as long as it runs.
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
        let question = self.client.query_raw(&sql).fetch_optional::<State>();
        match self.within_deadline(question).await? {
            None => Ok(CopyState::Failed("the server has restarted".to_owned())),
            Some(state) if !state.is_over => Ok(CopyState::Running),
            Some(state) if state.is_done => Ok(CopyState::Done),
            Some(state) => {
                // What follows are addresses in the server's program.
                let error = state.error.split(", Stack trace").next();
                Ok(CopyState::Failed(error.unwrap_or_default().to_owned()))
            }
        }
    }
}
