//! Tables behind PostgreSQL's protocol: PostgreSQL's own, and Amazon Redshift's.
//!
//! Rows are streamed by COPY into a temporary table, which nobody else sees and which ends with the
//! connection. One transaction then puts them into the table by their key, together with a row in
//! `<table>_millrace_runs` that names the window and the try. When the answer to COMMIT is lost,
//! that row tells whether it was carried out. A window that is exported again updates the rows that
//! exist and adds the others.
//!
//! | Module | Holds | May use |
//! |---|---|---|
//! | `server` | address, credentials, time limits of a server | – |
//! | `failure` | errors in words for the customer | server |
//! | `tls` | TLS with verified and self-signed certificates | – |
//! | `sql` | statements as text | server |
//! | `native_sql` | statements that differ from Redshift's | server, sql, table_schema |
//! | `bounded` | stream with a limit on what a server may send | – |
//! | `request_budget` | stream with a limit on what the driver may send for a request | – |
//! | `session` | connection to a server | server, failure, tls, bounded, request_budget |
//! | `table_schema` | finds, creates and checks the table | session, sql |
//! | `publish` | the publishing transaction, and its outcome | session, sql, table_schema |
//! | `staged_rows` | a run's rows in the temporary table | publish, table_schema |
//! | `copy_text` | rows in COPY's text format | – |
//! | `delivery` | delivery of one run | all |
//! | `redshift` | parts that differ in Redshift | all |
//! | `steps` | test of a destination | session, table_schema |

mod bounded;
mod copy_text;
mod delivery;
mod failure;
mod native_sql;
mod publish;
mod redshift;
mod request_budget;
mod server;
mod session;
mod sql;
mod staged_rows;
mod steps;
mod table_schema;
mod tls;

pub use server::TimeLimits;

use super::dialler::Dialler;
use super::settings::Settings;
use super::table::Layout;
use super::{Delivery, Destination, DestinationConfig, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use delivery::CopyDelivery;
use millrace_catalog::DestinationType;
use redshift::InsertDelivery;
use server::{Dialect, Server};
use std::sync::Arc;

/// Destination: a table in PostgreSQL or Redshift.
pub struct Postgres {
    server: Arc<Server>,
    dialler: Arc<dyn Dialler>,
}

impl Postgres {
    /// Opens the table in a `Postgres` or `Redshift` that a configuration names; nothing is dialled
    /// yet.
    ///
    /// # Errors
    /// A field is missing.
    pub fn open(
        destination: DestinationConfig<'_>,
        dialler: Arc<dyn Dialler>,
        limits: TimeLimits,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(destination.config, destination.secrets);
        let dialect = match destination.kind {
            DestinationType::Redshift => Dialect::Redshift {
                super_type: settings.text("properties_data_type") == Some("super"),
            },
            _ => Dialect::Postgres,
        };
        let server = Server::of(&settings, dialect, Layout::of(destination.model), limits)?;
        Ok(Self {
            server: Arc::new(server),
            dialler,
        })
    }
}

#[async_trait]
impl Destination for Postgres {
    fn form(&self) -> RowForm {
        RowForm::TableJsonLines
    }

    async fn begin(&self, run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        let (server, dialler) = (&self.server, Arc::clone(&self.dialler));
        Ok(match server.dialect {
            Dialect::Postgres => Box::new(CopyDelivery::begin(server, dialler, run).await?),
            Dialect::Redshift { .. } => {
                Box::new(InsertDelivery::begin(server, dialler, run).await?)
            }
        })
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &steps::STEPS
    }

    async fn test(&self, step: TestStep) -> Result<(), ExportError> {
        steps::make(&self.server, &*self.dialler, step).await
    }
}
