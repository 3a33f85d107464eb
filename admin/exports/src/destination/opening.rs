//! From an export's configuration to its destination.

use super::Destination;
use super::calls::Pace;
use super::dialler::Dialler;
use super::files::{self, ExportRoot};
use super::http::Http;
use super::no_op::NoOp;
use super::postgres::{Postgres, TimeLimits};
use super::warehouse::{Means, Warehouse};
use crate::error::ExportError;
use millrace_catalog::{BatchExport, DestinationType, ExportModel, SecretKey};
use millrace_dial::{Guard, HttpSetupError};
use millrace_rows::SystemClock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// What a destination is opened by; its fields were checked.
#[derive(Clone, Copy)]
pub struct Configured<'a> {
    /// Where rows go.
    pub kind: DestinationType,
    /// What rows are of.
    pub model: ExportModel,
    /// The fields that are shown.
    pub config: &'a Value,
    /// Those that are not.
    pub secrets: &'a BTreeMap<String, String>,
    /// The organization in whose folder of this server files stay; `None`: in that of all exports.
    pub files_of: Option<Uuid>,
}

/// Opens destinations: what all of them need. Clones share it.
#[derive(Clone)]
pub struct Destinations {
    secret_key: SecretKey,
    guard: Guard,
    export_root: Option<PathBuf>,
}

impl Destinations {
    /// With the key of secrets; `export_root` is the folder that files stay in, and
    /// `allow_private` whether private networks are no worse than the internet.
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

    /// The destination of an export; nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing, or its secrets were sealed with a key that this process has not got (yet).
    pub fn open(&self, export: &BatchExport) -> Result<Box<dyn Destination>, ExportError> {
        let secrets = export.secrets(&self.secret_key).map_err(|error| {
            tracing::warn!(%error, export_id = %export.id, "an export waits for its key");
            ExportError::waits(
                "The secrets of this destination were encrypted with a key that this server does \
                 not have. The operator has to give it the key; or give the secrets again.",
            )
        })?;
        self.open_config(Configured {
            kind: export.destination_type,
            model: export.model,
            config: &export.destination_config,
            secrets: &secrets,
            files_of: (!export.files_at_root).then_some(export.organization_id),
        })
    }

    /// A destination that is kept nowhere, for a test of it.
    ///
    /// # Errors
    /// A field is missing.
    pub fn open_config(&self, of: Configured<'_>) -> Result<Box<dyn Destination>, ExportError> {
        let Configured {
            kind,
            config,
            secrets,
            files_of,
            ..
        } = of;
        let dialler: Arc<dyn Dialler> = Arc::new(self.guard.clone());
        let pace = Pace::default();
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
                Box::new(Postgres::open(of, dialler, limits)?)
            }
            DestinationType::Snowflake
            | DestinationType::BigQuery
            | DestinationType::Databricks => {
                let means = Means {
                    dialler,
                    clock: Arc::new(SystemClock),
                    pace,
                };
                Box::new(Warehouse::open(of, means)?)
            }
            DestinationType::Http => Box::new(Http::open(config, secrets, dialler, pace)?),
            DestinationType::NoOp => Box::new(NoOp),
        })
    }
}
