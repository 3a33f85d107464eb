//! Tables in BigQuery.
//!
//! Rows are uploaded as lines of JSON, in pieces of one resumable upload, whose end begins a load
//! job into a table beside that of events. A MERGE then brings them into the table by `uuid`. Both
//! jobs have ids of our making, so that one that may have begun is found again, not begun twice.
//!
//! **Tested against a fake of what Google's documents say only.**
//!
//! | Module | Holds |
//! |---|---|
//! | `sql` | names, columns, the MERGE |
//! | `account` | calls with the service account's token; jobs and what became of them |
//! | `upload` | one resumable upload |
//! | `delivery` | one run |

mod account;
mod delivery;
mod sql;
mod upload;

pub(super) use account::Account;

use super::warehouse::api::Api;
use super::warehouse::{Service, scratch_name, steps::unread};
use super::{Delivery, TestStep};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use std::sync::Arc;
use url::Url;

/// Where BigQuery is.
pub(super) fn base() -> Result<Url, ExportError> {
    let wrong = |_| ExportError::hopeless("There is no BigQuery.");
    Url::parse("https://bigquery.googleapis.com").map_err(wrong)
}

#[async_trait]
impl Service for Account {
    fn api(&self) -> &Api {
        &self.api
    }

    async fn begin(self: Arc<Self>, run: &RunScope) -> Result<Box<dyn Delivery>, ExportError> {
        Ok(Box::new(delivery::LoadDelivery::begin(self, run).await?))
    }

    async fn test(self: Arc<Self>, step: TestStep) -> Result<(), ExportError> {
        let scratch = scratch_name(&self.names.table);
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
