//! Tables in warehouses behind HTTP: what they have in common.
//!
//! Rows go into a staging table, whose name is derived from the window: a run that is tried again
//! begins by replacing it. One MERGE then brings them into the table by their key, each once. It is
//! a single statement, so it is done or not, and doing it again changes nothing. Then the staging
//! table is dropped.
//!
//! **Tested against fakes of what the vendors' documents say only**, never against the services.
//!
//! | Module | Holds |
//! |---|---|
//! | `api` | HTTP calls with JSON answers |
//! | `service` | vendor-specific part of a warehouse |
//! | `sql_service` | that part of services that take SQL statements |
//! | `stage` | staging table of a delivery, and its end |
//! | `engine` | runs SQL statements with a parameter, for services that take them |
//! | `statements` | statements of a run |
//! | `delivery` | delivery of one run to those services |
//! | `steps` | test of a destination on those services |
//! | `sql` | MERGE and literals |
//! | `table_ref` | statements on tables that are named in three parts |
//! | `jwt` | tokens signed with a customer's RSA key |
//! | `token` | cached access tokens |

pub(crate) mod api;
mod delivery;
pub(crate) mod engine;
pub(crate) mod jwt;
pub(crate) mod service;
pub(crate) mod sql;
mod sql_service;
pub(crate) mod stage;
pub(crate) mod statements;
mod steps;
pub(crate) mod table_ref;
pub(crate) mod token;

use super::big_query::BigQueryService;
use super::calls::{RetryPolicy, reach};
use super::databricks::DatabricksEngine;
use super::dialler::Dialler;
use super::settings::Settings;
use super::snowflake::SnowflakeEngine;
use super::table::Layout;
use super::{Delivery, Destination, DestinationConfig, TestStep, big_query, databricks, snowflake};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use api::Api;
use async_trait::async_trait;
use millrace_catalog::DestinationType;
use millrace_rows::Clock;
use service::Service;
use std::sync::Arc;
use url::Url;
use uuid::Uuid;

/// Destination: a table in Snowflake, BigQuery or Databricks.
pub struct Warehouse {
    service: Arc<dyn Service>,
    dialler: Arc<dyn Dialler>,
    /// Id of the test that this is opened for, if it is.
    test_id: Uuid,
}

/// Dependencies of all warehouses.
#[derive(Clone)]
pub struct WarehouseDeps {
    /// Dialler of connections.
    pub dialler: Arc<dyn Dialler>,
    /// Clock that tokens are dated by.
    pub clock: Arc<dyn Clock>,
    /// Time limits and retries of calls.
    pub retry_policy: RetryPolicy,
}

impl Warehouse {
    /// Opens the table in a `Snowflake`, `BigQuery` or `Databricks` that a configuration names;
    /// nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing, or the key cannot be read.
    pub fn open(
        destination: DestinationConfig<'_>,
        deps: WarehouseDeps,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(destination.config, destination.secrets);
        let base = match destination.kind {
            DestinationType::Snowflake => snowflake::base(&settings)?,
            DestinationType::BigQuery => big_query::base()?,
            _ => databricks::base(&settings)?,
        };
        Self::open_at(base, destination, deps)
    }

    /// Opens the table behind another URL than the vendor's.
    ///
    /// # Errors
    /// As [`Warehouse::open`].
    pub fn open_at(
        base: Url,
        destination: DestinationConfig<'_>,
        deps: WarehouseDeps,
    ) -> Result<Self, ExportError> {
        let WarehouseDeps {
            dialler,
            clock,
            retry_policy,
        } = deps;
        let (settings, layout) = (
            Settings::new(destination.config, destination.secrets),
            Layout::of(destination.model),
        );
        let client = dialler.http_client()?;
        let api = |product| Api::new(client, base, retry_policy, product);
        let service: Arc<dyn Service> = match destination.kind {
            DestinationType::Snowflake => {
                let api = api("Snowflake");
                Arc::new(SnowflakeEngine::new(&settings, layout, api, clock)?)
            }
            DestinationType::BigQuery => Arc::new(BigQueryService::new(
                &settings,
                layout,
                api("BigQuery"),
                clock,
            )?),
            DestinationType::Databricks => {
                let api = api("Databricks");
                Arc::new(DatabricksEngine::new(&settings, layout, api, clock)?)
            }
            _ => {
                return Err(ExportError::permanent(
                    "This destination is not a warehouse.",
                ));
            }
        };
        Ok(Self {
            service,
            dialler,
            test_id: Uuid::new_v4(),
        })
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
            TestStep::Reach => reach(&*self.dialler, &api.base, &api.retry_policy).await,
            step => Arc::clone(&self.service).test(step, self.test_id).await,
        }
    }
}
