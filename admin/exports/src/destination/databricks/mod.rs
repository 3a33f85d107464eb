//! Tables in Databricks, by its SQL statement execution API.
//!
//! A service principal gets in by OAuth (`client_id`, `client_secret`), at the workspace that
//! `server_hostname` names. The API has no ids of requests: rows of a request that was sent again
//! may be twice in the table beside that of events, and MERGE brings each `uuid` over once.
//!
//! **Tested against a fake of what Databricks' documents say only.**

mod engine;
mod sql;

use super::calls::Pace;
use super::dialler::Dialler;
use super::settings::Settings;
use super::table::events_only;
use super::warehouse::delivery::WarehouseDelivery;
use super::warehouse::steps;
use super::{Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use engine::DatabricksEngine;
use millrace_rows::Clock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use url::Url;

/// A table in Databricks.
pub struct Databricks {
    engine: Arc<DatabricksEngine>,
    dialler: Arc<dyn Dialler>,
    pace: Pace,
}

impl Databricks {
    /// The table that a configuration names; nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing.
    pub fn open(
        config: &Value,
        secrets: &BTreeMap<String, String>,
        dialler: Arc<dyn Dialler>,
        clock: Arc<dyn Clock>,
        pace: Pace,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(config, secrets);
        let host = settings.required("server_hostname")?;
        let wrong = |_| ExportError::hopeless("The server_hostname is no name of a server.");
        let base = Url::parse(&format!("https://{host}")).map_err(wrong)?;
        Self::open_at(base, config, secrets, dialler, clock, pace)
    }

    /// The same behind another URL than the workspace's.
    ///
    /// # Errors
    /// As [`Databricks::open`].
    pub fn open_at(
        base: Url,
        config: &Value,
        secrets: &BTreeMap<String, String>,
        dialler: Arc<dyn Dialler>,
        clock: Arc<dyn Clock>,
        pace: Pace,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(config, secrets);
        let client = dialler.http_client()?;
        let engine = DatabricksEngine::new(&settings, base, client, clock, pace)?;
        Ok(Self {
            engine: Arc::new(engine),
            dialler,
            pace,
        })
    }
}

#[async_trait]
impl Destination for Databricks {
    fn form(&self) -> RowForm {
        RowForm::TableJsonLines
    }

    async fn begin(&self, run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        events_only(run)?;
        let engine = Arc::clone(&self.engine);
        let delivery = WarehouseDelivery::begin(engine, &self.engine.names.table, run).await?;
        Ok(Box::new(delivery))
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &steps::STEPS
    }

    async fn test(&self, step: TestStep) -> Result<(), ExportError> {
        let scratch = format!("{}_millrace_test", self.engine.names.table);
        steps::make(&*self.engine, &*self.dialler, &self.pace, &scratch, step).await
    }
}
