//! Tables in BigQuery.
//!
//! Rows are uploaded as lines of JSON, in pieces of one resumable upload, whose end starts a load
//! job into a staging table. A MERGE then brings them into the table by `uuid`. Both jobs have ids
//! that we choose, so that a job that may have started is found again, not started twice.
//!
//! **Tested against a fake of what Google's documents say only.**
//!
//! | Module | Holds |
//! |---|---|
//! | `sql` | the table and its columns, the MERGE |
//! | `service` | calls with the service account's token; tables, jobs and their outcome |
//! | `upload` | one resumable upload |
//! | `delivery` | delivery of one run |
//! | `failure` | errors that pass, and those that do not |

mod delivery;
mod failure;
mod service;
mod sql;
mod upload;

pub(super) use service::BigQueryService;

use super::warehouse::api::Api;
use super::warehouse::service::{Service, scratch_name, unread};
use super::{Delivery, TestStep};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use std::sync::Arc;
use url::Url;
use uuid::Uuid;

/// Base URL of BigQuery.
pub(super) fn base() -> Result<Url, ExportError> {
    let wrong = |_| ExportError::permanent("There is no BigQuery.");
    Url::parse("https://bigquery.googleapis.com").map_err(wrong)
}

#[async_trait]
impl Service for BigQueryService {
    fn api(&self) -> &Api {
        &self.api
    }

    async fn begin(self: Arc<Self>, run: &RunScope) -> Result<Box<dyn Delivery>, ExportError> {
        Ok(Box::new(delivery::LoadDelivery::begin(self, run).await?))
    }

    async fn test(self: Arc<Self>, step: TestStep, test_id: Uuid) -> Result<(), ExportError> {
        let scratch = scratch_name(&self.table_ref.table, test_id);
        match step {
            TestStep::Reach | TestStep::Authenticate => self.log_in().await.map(drop),
            TestStep::Find => self.find_dataset().await.map(drop),
            TestStep::Write => delivery::load_row(&self, &scratch).await,
            TestStep::Read => match self.rows_of(&scratch).await? {
                0 => Err(unread()),
                _ => Ok(()),
            },
            TestStep::Delete => self.delete_table(&scratch).await,
        }
    }
}
