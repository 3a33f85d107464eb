//! Tables in Amazon Redshift, which speaks PostgreSQL's protocol but has no COPY from a
//! connection, no keys that it keeps, and no upsert.
//!
//! Rows go into a temporary table by INSERTs of many rows each, as texts. One transaction takes
//! out of the table what is there of them and puts all of them in, each `uuid` once. What runs
//! are committed is known as in [`super::postgres`].
//!
//! Limits of Redshift: a statement has 16 MB, a VARCHAR 65 535 bytes. JSON that is longer is
//! replaced by a note of its length, and the row counted as changed; otherwise one event would
//! keep back all exports for ever. Nothing here was tried on Redshift itself: tests run what is
//! not its own SQL on PostgreSQL, which has functions of the same names there.

mod delivery;
mod sql;

use super::dialler::Dialler;
use super::postgres::TimeLimits;
use super::postgres::server::{Dialect, Server};
use super::postgres::steps;
use super::settings::Settings;
use super::table::events_only;
use super::{Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table in Redshift.
pub struct Redshift {
    server: Arc<Server>,
    dialler: Arc<dyn Dialler>,
}

impl Redshift {
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
        let super_type = settings.text("properties_data_type") == Some("super");
        let server = Server::of(&settings, Dialect::Redshift { super_type }, limits)?;
        let server = Arc::new(server);
        Ok(Self { server, dialler })
    }
}

#[async_trait]
impl Destination for Redshift {
    fn form(&self) -> RowForm {
        RowForm::TableJsonLines
    }

    async fn begin(&self, run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        events_only(run)?;
        let dialler = Arc::clone(&self.dialler);
        let delivery = delivery::InsertDelivery::begin(&self.server, dialler, run).await?;
        Ok(Box::new(delivery))
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &steps::STEPS
    }

    async fn test(&self, step: TestStep) -> Result<(), ExportError> {
        steps::make(&self.server, &*self.dialler, step).await
    }
}
