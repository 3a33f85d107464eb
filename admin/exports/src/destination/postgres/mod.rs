//! Tables in PostgreSQL.
//!
//! Rows are streamed by COPY into a temporary table, which nobody else sees and which goes with
//! the connection. One transaction then puts them into the table by `uuid`, together with a row
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
//! | `session` | a connection | server, failure, tls |
//! | `shape` | the table: found, made, checked | session, sql |
//! | `copy_text` | rows in COPY's text format | – |
//! | `delivery` | one run | all |
//! | `publish` | the transaction, and what became of it | session, sql, shape |
//! | `steps` | the test of a destination | session, shape |

mod copy_text;
mod delivery;
pub(crate) mod failure;
pub(crate) mod publish;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod shape;
pub(crate) mod sql;
pub(crate) mod steps;
mod tls;

pub use server::TimeLimits;

use super::dialler::Dialler;
use super::settings::Settings;
use super::table::events_only;
use super::{Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use serde_json::Value;
use server::{Dialect, Server};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table in PostgreSQL.
pub struct Postgres {
    server: Arc<Server>,
    dialler: Arc<dyn Dialler>,
}

impl Postgres {
    /// The table that a configuration names; nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing.
    pub fn open(
        config: &Value,
        secrets: &BTreeMap<String, String>,
        dialler: Arc<dyn Dialler>,
        limits: TimeLimits,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(config, secrets);
        let server = Server::of(&settings, Dialect::Postgres, limits)?;
        let server = Arc::new(server);
        Ok(Self { server, dialler })
    }
}

#[async_trait]
impl Destination for Postgres {
    fn form(&self) -> RowForm {
        RowForm::TableJsonLines
    }

    async fn begin(&self, run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        events_only(run)?;
        let dialler = Arc::clone(&self.dialler);
        let delivery = delivery::CopyDelivery::begin(&self.server, dialler, run).await?;
        Ok(Box::new(delivery))
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &steps::STEPS
    }

    async fn test(&self, step: TestStep) -> Result<(), ExportError> {
        steps::make(&self.server, &*self.dialler, step).await
    }
}
