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

use super::calls::Pace;
use super::dialler::Dialler;
use super::settings::Settings;
use super::table::events_only;
use super::warehouse::steps;
use super::{Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use account::Account;
use async_trait::async_trait;
use millrace_rows::Clock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use url::Url;

/// Where BigQuery is.
const GOOGLE: &str = "https://bigquery.googleapis.com";

/// A table in BigQuery.
pub struct BigQuery {
    account: Arc<Account>,
    dialler: Arc<dyn Dialler>,
}

impl BigQuery {
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
        let base =
            Url::parse(GOOGLE).map_err(|_| ExportError::hopeless("There is no BigQuery."))?;
        Self::open_at(base, config, secrets, dialler, clock, pace)
    }

    /// The same behind another URL than Google's.
    ///
    /// # Errors
    /// As [`BigQuery::open`].
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
        let account = Account::new(&settings, base, client, clock, pace)?;
        Ok(Self {
            account: Arc::new(account),
            dialler,
        })
    }
}

#[async_trait]
impl Destination for BigQuery {
    fn form(&self) -> RowForm {
        RowForm::TableJsonLines
    }

    async fn begin(&self, run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        events_only(run)?;
        let account = Arc::clone(&self.account);
        let delivery = delivery::LoadDelivery::begin(account, run).await?;
        Ok(Box::new(delivery))
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &steps::STEPS
    }

    async fn test(&self, step: TestStep) -> Result<(), ExportError> {
        let account = &*self.account;
        let scratch = format!("{}_millrace_test", account.names.table);
        match step {
            TestStep::Reach => steps::reach(&*self.dialler, account.host(), account.pace()).await,
            TestStep::Authenticate => account.log_in().await.map(drop),
            TestStep::Find | TestStep::Read => account.find_dataset().await.map(drop),
            TestStep::Write => account.create_table(&scratch).await,
            TestStep::Delete => account.delete_table(&scratch).await,
        }
    }
}
