//! Destination: a table in a customer's own ClickHouse.
//!
//! Rows are inserted into a staging table of the try, each insert under a token, and counted there.
//! One statement then brings those into the table that it lacks: the presence check and the insert
//! are the same statement, so that repeating it changes nothing. It is repeated until none is
//! missing. A try that begins drops the staging tables of earlier tries of its window, and waits
//! for their statements: none of them inserts beside it.
//!
//! The statement is not all or nothing: rows of a large window appear in several parts.
//!
//! | Module | Holds |
//! |---|---|
//! | `server` | requests to the server, and their answers |
//! | `failure` | errors in words for the customer |
//! | `sql` | statements as text |
//! | `table_schema` | finds, creates and checks the table |
//! | `tsv` | rows in ClickHouse's TSV |
//! | `delivery` | delivery of one run |
//! | `steps` | test of a destination |

mod delivery;
mod failure;
mod server;
mod sql;
mod steps;
mod table_schema;
mod tsv;

use super::calls::{RetryPolicy, reach};
use super::dialler::Dialler;
use super::settings::Settings;
use super::table::Layout;
use super::{Delivery, Destination, DestinationConfig, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use delivery::ClickHouseDelivery;
use server::Server;
use std::sync::Arc;
use uuid::Uuid;

/// Destination: a table in a customer's ClickHouse.
pub struct ClickHouseTable {
    server: Arc<Server>,
    dialler: Arc<dyn Dialler>,
    /// Id of the test that this is opened for, if it is.
    test_id: Uuid,
}

impl ClickHouseTable {
    /// Opens the table that a configuration names; nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing, or certificates cannot be read.
    pub fn open(
        destination: DestinationConfig<'_>,
        dialler: Arc<dyn Dialler>,
        retry_policy: RetryPolicy,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(destination.config, destination.secrets);
        let layout = Layout::of(destination.model);
        let server = Server::of(&settings, layout, dialler.http_client()?, retry_policy)?;
        Ok(Self {
            server: Arc::new(server),
            dialler,
            test_id: Uuid::new_v4(),
        })
    }
}

#[async_trait]
impl Destination for ClickHouseTable {
    fn form(&self) -> RowForm {
        RowForm::TableJsonLines
    }

    async fn begin(&self, run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        let server = Arc::clone(&self.server);
        Ok(Box::new(ClickHouseDelivery::begin(server, run).await?))
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &steps::STEPS
    }

    async fn test(&self, step: TestStep) -> Result<(), ExportError> {
        let server = &*self.server;
        match step {
            TestStep::Reach => reach(&*self.dialler, &server.url, &server.retry_policy).await,
            step => steps::make(server, self.test_id, step).await,
        }
    }
}
