//! Tables behind PostgreSQL's protocol: PostgreSQL's own, and Amazon Redshift's.
//!
//! Rows are streamed by COPY into a temporary table, which nobody else sees and which goes with
//! the connection. One transaction then puts them into the table by their key, together with a row
//! in `<table>_millrace_runs` that names the window and the try. When the answer to COMMIT is
//! lost, that row says whether it was carried out. A window that is exported again changes the
//! rows that are there and adds those that are not.
//!
//! | Module | Holds | May use |
//! |---|---|---|
//! | `server` | where it is and how we get in; limits of time | – |
//! | `failure` | what went wrong, for the customer | server |
//! | `tls` | TLS to servers with and without a certificate that the world knows | – |
//! | `sql` | statements as text | server |
//! | `bounded` | a stream of which a server may fill only so much | – |
//! | `session` | a connection | server, failure, tls, bounded |
//! | `shape` | the table: found, made, checked | session, sql |
//! | `publish` | the transaction, and what became of it | session, sql, shape |
//! | `arriving` | a run's rows on their way into the temporary table | publish, shape |
//! | `copy_text` | rows in COPY's text format | – |
//! | `delivery` | one run | all |
//! | `redshift` | what Redshift does in a way of its own | all |
//! | `steps` | the test of a destination | session, shape |

mod arriving;
mod bounded;
mod copy_text;
mod delivery;
mod failure;
mod publish;
mod redshift;
mod server;
mod session;
mod shape;
mod sql;
mod steps;
mod tls;

pub use server::TimeLimits;

use super::dialler::Dialler;
use super::settings::Settings;
use super::table::Layout;
use super::{Configured, Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use delivery::CopyDelivery;
use millrace_catalog::DestinationType;
use redshift::InsertDelivery;
use server::{Dialect, Server};
use std::sync::Arc;

/// A table in PostgreSQL or Redshift.
pub struct Postgres {
    server: Arc<Server>,
    dialler: Arc<dyn Dialler>,
}

impl Postgres {
    /// The table in a `Postgres` or `Redshift` that a configuration names; nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing.
    pub fn open(
        of: Configured<'_>,
        dialler: Arc<dyn Dialler>,
        limits: TimeLimits,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(of.config, of.secrets);
        let dialect = match of.kind {
            DestinationType::Redshift => Dialect::Redshift {
                super_type: settings.text("properties_data_type") == Some("super"),
            },
            _ => Dialect::Postgres,
        };
        let server = Server::of(&settings, dialect, Layout::of(of.model), limits)?;
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
