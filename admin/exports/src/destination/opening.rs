//! Opens destinations from exports' configurations.

use super::Destination;
use super::calls::RetryPolicy;
use super::clickhouse::ClickHouseTable;
use super::config::DestinationConfig;
use super::dialler::Dialler;
use super::files::{self, ExportRoot};
use super::http::Http;
use super::no_op::NoOp;
use super::postgres::{Postgres, TimeLimits};
use super::warehouse::{Warehouse, WarehouseDeps};
use crate::error::ExportError;
use crate::records::secrets_of;
use crate::secrets::SecretKey;
use millrace_catalog::{BatchExport, DestinationType};
use millrace_dial::{Guard, HttpSetupError};
use millrace_rows::SystemClock;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens destinations, with what all of them need. Clones share it.
#[derive(Clone)]
pub struct Destinations {
    secret_key: SecretKey,
    guard: Guard,
    export_root: Option<PathBuf>,
}

impl Destinations {
    /// Creates the opener with the key of secrets. Files stay below the folder `export_root`;
    /// private networks may be dialled if `allow_private` is true.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(
        secret_key: SecretKey,
        allow_private: bool,
        export_root: Option<PathBuf>,
    ) -> Result<Self, HttpSetupError> {
        Ok(Self {
            secret_key,
            guard: Guard::new(allow_private)?,
            export_root,
        })
    }

    /// Opens the destination of an export; nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing, or its secrets were sealed with a key that this process does not have
    /// (yet).
    pub fn open(&self, export: &BatchExport) -> Result<Box<dyn Destination>, ExportError> {
        let secrets = secrets_of(export, &self.secret_key).map_err(|error| {
            tracing::warn!(%error, export_id = %export.id, "an export waits for its key");
            ExportError::waiting(
                "The secrets of this destination were encrypted with a key that this server does \
                 not have. The operator has to give it the key; or give the secrets again.",
            )
        })?;
        self.open_config(DestinationConfig {
            kind: export.destination_type,
            model: export.model,
            config: &export.destination_config,
            secrets: &secrets,
            files_of: (!export.files_at_root).then_some(export.organization_id),
        })
    }

    /// Opens a destination that is not stored, to test it.
    ///
    /// # Errors
    /// A field is missing.
    pub fn open_config(
        &self,
        destination: DestinationConfig<'_>,
    ) -> Result<Box<dyn Destination>, ExportError> {
        let DestinationConfig {
            kind,
            config,
            secrets,
            files_of,
            ..
        } = destination;
        let dialler: Arc<dyn Dialler> = Arc::new(self.guard.clone());
        let retry_policy = RetryPolicy::default();
        Ok(match kind {
            DestinationType::S3
            | DestinationType::AzureBlob
            | DestinationType::Gcs
            | DestinationType::FileSystem => {
                let root = self.export_root.as_deref();
                let root = root.map(|path| ExportRoot { path, files_of });
                files::open(kind, config, secrets, &self.guard, root)?
            }
            DestinationType::Postgres | DestinationType::Redshift => {
                let limits = TimeLimits::default();
                Box::new(Postgres::open(destination, dialler, limits)?)
            }
            DestinationType::Snowflake
            | DestinationType::BigQuery
            | DestinationType::Databricks => {
                let deps = WarehouseDeps {
                    dialler,
                    clock: Arc::new(SystemClock),
                    retry_policy,
                };
                Box::new(Warehouse::open(destination, deps)?)
            }
            DestinationType::ClickHouse => {
                Box::new(ClickHouseTable::open(destination, dialler, retry_policy)?)
            }
            DestinationType::Http => Box::new(Http::open(config, secrets, dialler, retry_policy)?),
            DestinationType::NoOp => Box::new(NoOp),
        })
    }
}
