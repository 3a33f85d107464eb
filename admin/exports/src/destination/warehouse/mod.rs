//! Tables in warehouses behind HTTP: what they have in common.
//!
//! Rows go into a table beside the one that they are for, whose name is made of the window: a run
//! that is tried again begins by replacing it. One MERGE then brings them into the table by their
//! key, each once; it is one statement, so it is done or not, and once more changes nothing. The table
//! beside is dropped.
//!
//! **Tested against fakes of what the vendors' documents say only**, never against the services.
//!
//! | Module | Holds |
//! |---|---|
//! | `api` | calls with JSON answers |
//! | `engine` | services that take SQL statements with a parameter: one statement, from its request to its result |
//! | `delivery` | one run, for those |
//! | `steps` | the test of a destination, for those |
//! | `sql` | statements that are alike |
//! | `place` | those of tables that are named in three parts, for services that take SQL |
//! | `jwt` | tokens signed with a customer's RSA key |
//! | `token` | tokens that are good for a while |

pub(crate) mod api;
mod delivery;
pub(crate) mod engine;
pub(crate) mod jwt;
pub(crate) mod place;
pub(crate) mod sql;
pub(crate) mod steps;
pub(crate) mod token;

use super::big_query::Account;
use super::calls::{Pace, reach};
use super::databricks::DatabricksEngine;
use super::dialler::Dialler;
use super::settings::Settings;
use super::snowflake::SnowflakeEngine;
use super::table::{Layout, run_key};
use super::{Configured, Delivery, Destination, TestStep, big_query, databricks, snowflake};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use api::Api;
use async_trait::async_trait;
use millrace_catalog::DestinationType;
use millrace_rows::Clock;
use std::sync::Arc;
use url::Url;
use uuid::Uuid;

/// A table in Snowflake, BigQuery or Databricks.
pub struct Warehouse {
    service: Arc<dyn Service>,
    dialler: Arc<dyn Dialler>,
}

/// What a warehouse does in a way of its own.
#[async_trait]
pub(crate) trait Service: Send + Sync {
    /// How it is called.
    fn api(&self) -> &Api;

    /// Begins to deliver a run.
    async fn begin(self: Arc<Self>, run: &RunScope) -> Result<Box<dyn Delivery>, ExportError>;

    /// Makes one of the [`steps::STEPS`] that follow [`TestStep::Reach`].
    async fn test(self: Arc<Self>, step: TestStep) -> Result<(), ExportError>;
}

/// What all of them are called with.
#[derive(Clone)]
pub struct Means {
    /// How connections are made.
    pub dialler: Arc<dyn Dialler>,
    /// What tokens are dated by.
    pub clock: Arc<dyn Clock>,
    /// How long they may take.
    pub pace: Pace,
}

impl Warehouse {
    /// The table in a `Snowflake`, `BigQuery` or `Databricks` that a configuration names; nothing
    /// is dialled yet.
    ///
    /// # Errors
    /// A field is missing, or the key cannot be read.
    pub fn open(of: Configured<'_>, means: Means) -> Result<Self, ExportError> {
        let settings = Settings::new(of.config, of.secrets);
        let base = match of.kind {
            DestinationType::Snowflake => snowflake::base(&settings)?,
            DestinationType::BigQuery => big_query::base()?,
            _ => databricks::base(&settings)?,
        };
        Self::open_at(base, of, means)
    }

    /// The same behind another URL than the vendor's.
    ///
    /// # Errors
    /// As [`Warehouse::open`].
    pub fn open_at(base: Url, of: Configured<'_>, means: Means) -> Result<Self, ExportError> {
        let Means {
            dialler,
            clock,
            pace,
        } = means;
        let (settings, layout) = (Settings::new(of.config, of.secrets), Layout::of(of.model));
        let client = dialler.http_client()?;
        let api = |product| Api::new(client, base, pace, product);
        let service: Arc<dyn Service> = match of.kind {
            DestinationType::Snowflake => {
                let api = api("Snowflake");
                Arc::new(SnowflakeEngine::new(&settings, layout, api, clock)?)
            }
            DestinationType::BigQuery => {
                Arc::new(Account::new(&settings, layout, api("BigQuery"), clock)?)
            }
            DestinationType::Databricks => {
                let api = api("Databricks");
                Arc::new(DatabricksEngine::new(&settings, layout, api, clock)?)
            }
            _ => return Err(ExportError::hopeless("This destination is no warehouse.")),
        };
        Ok(Self { service, dialler })
    }
}

#[async_trait]
impl Destination for Warehouse {
    fn form(&self) -> RowForm {
        RowForm::TableJsonLines
    }

    async fn begin(&self, run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        Arc::clone(&self.service).begin(run).await
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &steps::STEPS
    }

    async fn test(&self, step: TestStep) -> Result<(), ExportError> {
        let api = self.service.api();
        match step {
            TestStep::Reach => reach(&*self.dialler, &api.base, &api.pace).await,
            step => Arc::clone(&self.service).test(step).await,
        }
    }
}

/// The name of the table beside the one that rows are for, for a window.
pub(crate) fn stage_name(table: &str, run: &RunScope) -> String {
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, run_key(run).as_bytes());
    format!("{table}_millrace_{}", digest.simple())
}

/// The name of the table that a test makes.
pub(crate) fn scratch_name(table: &str) -> String {
    format!("{table}_millrace_test")
}
