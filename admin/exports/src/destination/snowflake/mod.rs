//! Tables in Snowflake, by its SQL API.
//!
//! The API takes a token signed with the user's key (`authentication_type` `keypair`), or a
//! programmatic access token, which goes into `password`: the passwords of users it does not take.
//! Each request has an id, under which Snowflake carries it out once however often it is sent.
//!
//! **Tested against a fake of what Snowflake's documents say only.**

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
use engine::SnowflakeEngine;
use millrace_rows::Clock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use url::Url;

/// A table in Snowflake.
pub struct Snowflake {
    engine: Arc<SnowflakeEngine>,
    dialler: Arc<dyn Dialler>,
    pace: Pace,
}

impl Snowflake {
    /// The table that a configuration names; nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing, or the key cannot be read.
    pub fn open(
        config: &Value,
        secrets: &BTreeMap<String, String>,
        dialler: Arc<dyn Dialler>,
        clock: Arc<dyn Clock>,
        pace: Pace,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(config, secrets);
        let account = settings.required("account")?;
        let wrong = |_| ExportError::hopeless("The account is no part of a server's name.");
        let base = Url::parse(&format!("https://{account}.snowflakecomputing.com"));
        Self::open_at(base.map_err(wrong)?, config, secrets, dialler, clock, pace)
    }

    /// The same behind another URL than Snowflake's.
    ///
    /// # Errors
    /// As [`Snowflake::open`].
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
        let engine = SnowflakeEngine::new(&settings, base, client, clock, pace)?;
        Ok(Self {
            engine: Arc::new(engine),
            dialler,
            pace,
        })
    }
}

#[async_trait]
impl Destination for Snowflake {
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
