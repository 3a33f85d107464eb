//! Examination of a catalog from outside: it is opened as it is, and nothing is migrated.

use crate::catalog::Catalog;
use crate::connect::{IfMissing, connect};
use crate::database_clock::database_now;
use crate::error::CatalogError;
use crate::migrations::{SchemaVersion, schema_version};
use millrace_rows::SystemClock;
use sea_orm::DbBackend;
use std::sync::Arc;

/// State of a catalog.
#[derive(Clone, Debug)]
pub struct Examination {
    /// Path of the file, or server and database without a password.
    pub location: String,
    /// Version of the schema.
    pub schema: SchemaVersion,
    /// Clock of the database server in microseconds since 1970; `None` for SQLite, which has that
    /// of this machine.
    pub server_micros: Option<i64>,
}

impl Catalog {
    /// Opens an existing catalog, looks at it and closes it.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Missing`], a fault of the URL, the file or the server, or a schema of a
    /// version that this program cannot use; the message says what to do.
    pub async fn examine(database_url: &str) -> Result<Examination, CatalogError> {
        let connected = connect(database_url, IfMissing::Fail).await?;
        let catalog = Self::new(connected, Arc::new(SystemClock));
        let examined = catalog.examination().await;
        // The pools would otherwise hold their connections until they are dropped.
        let _ = catalog.close().await;
        examined
    }

    async fn examination(&self) -> Result<Examination, CatalogError> {
        let schema = schema_version(&self.db, &self.location).await?;
        let server_micros = match self.db.get_database_backend() {
            DbBackend::Sqlite => None,
            _ => {
                let now = database_now(&self.db).await;
                Some(now.map_err(|error| self.error(&error))?)
            }
        };
        Ok(Examination {
            location: self.location.to_string(),
            schema,
            server_micros,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[tokio::test]
    async fn an_examination_creates_and_changes_nothing() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("catalog.db");
        let url = format!("sqlite://{}?mode=rwc", file.display());
        let missing = Catalog::examine(&url).await;
        assert!(
            matches!(missing, Err(CatalogError::Missing { .. })),
            "{missing:?}"
        );
        assert!(!file.exists());
        Catalog::open(&url).await.unwrap().close().await.unwrap();
        let found = Catalog::examine(&url).await.unwrap();
        assert_eq!(found.schema, SchemaVersion::Current);
        assert_eq!(
            (found.location, found.server_micros),
            (file.display().to_string(), None)
        );
    }
}
