//! Destination: a server that receives events over HTTP.
//!
//! A URL whose path ends with `/batch` gets the format of our own ingestion endpoint: `{"api_key",
//! "historical_migration": true, "batch": […]}`. Any other gets lines of JSON
//! (`application/x-ndjson`) with the token as `Authorization: Bearer`.
//!
//! Batches are bounded and follow one another. Each has an `Idempotency-Key` made of the export,
//! the window, the number of the batch and a digest of its bytes. A batch is sent again only if its
//! outcome is not known, or if the server refused it for now, and then under the same key. There is
//! no transaction: batches that a run had sent before it failed stay there, and the next try sends
//! them again, under the same keys if the rows are the same; events have their `uuid`.
//!
//! | Module | Holds |
//! |---|---|
//! | `batch` | bodies of batches of events |
//! | `send` | one request, retried until its outcome is known |

mod batch;
mod send;

use super::calls::{RetryPolicy, reach};
use super::dialler::Dialler;
use super::settings::Settings;
use super::table::receiver::Receiver;
use super::table::run_key;
use super::{Delivered, Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use batch::{Batch, BodyFormat};
use bytes::Bytes;
use millrace_catalog::ExportModel;
use send::Sender;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use url::Url;

/// Destination: a server that receives events.
pub struct Http {
    sender: Arc<Sender>,
    body_format: BodyFormat,
    token: String,
    dialler: Arc<dyn Dialler>,
    url: Url,
    retry_policy: RetryPolicy,
}

impl Http {
    /// Opens the server that a configuration names; nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing, or certificates cannot be read.
    pub fn open(
        config: &Value,
        secrets: &BTreeMap<String, String>,
        dialler: Arc<dyn Dialler>,
        retry_policy: RetryPolicy,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(config, secrets);
        let no_url = |_| ExportError::permanent("The destination's url is not a URL.");
        let url = Url::parse(settings.required("url")?).map_err(no_url)?;
        let token = settings.required("token")?.to_owned();
        let body_format = BodyFormat::of(&url);
        let client = dialler.http_client()?;
        let sender = Sender::new(client, url.clone(), body_format, &token, retry_policy)?;
        Ok(Self {
            sender: Arc::new(sender),
            body_format,
            token,
            dialler,
            url,
            retry_policy,
        })
    }
}

#[async_trait]
impl Destination for Http {
    fn form(&self) -> RowForm {
        RowForm::JsonLines
    }

    async fn begin(&self, run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        if run.model != ExportModel::Events {
            return Err(ExportError::permanent(
                "This destination accepts events only: export persons to files or tables.",
            ));
        }
        Ok(Box::new(HttpDelivery {
            sender: Arc::clone(&self.sender),
            batch: Batch::new(self.body_format, &self.token),
            run: run_key(run),
            batches: 0,
            receiver: Receiver::new(usize::MAX),
            bytes: 0,
        }))
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &[TestStep::Reach, TestStep::Authenticate]
    }

    async fn test(&self, step: TestStep) -> Result<(), ExportError> {
        match step {
            TestStep::Reach => reach(&*self.dialler, &self.url, &self.retry_policy).await,
            _ => {
                let empty = Batch::new(self.body_format, &self.token).take();
                self.sender.test(empty).await
            }
        }
    }
}

/// Delivery of events in batches.
struct HttpDelivery {
    sender: Arc<Sender>,
    batch: Batch,
    run: String,
    /// Number of batches that were sent.
    batches: u64,
    receiver: Receiver,
    bytes: u64,
}

impl HttpDelivery {
    async fn send(&mut self) -> Result<(), ExportError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let body = self.batch.take();
        let key = batch::key(&self.run, self.batches, &body);
        let bytes = body.len() as u64;
        self.sender.send(body, &key).await?;
        self.batches += 1;
        self.bytes += bytes;
        Ok(())
    }
}

#[async_trait]
impl Delivery for HttpDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.receiver.lines.push(&bytes);
        while let Some(line) = self.receiver.lines.next_line()? {
            // Invalid UTF-8 and halves of surrogate pairs are JSON that many parsers refuse.
            let line = self.receiver.take(&line);
            if self.batch.is_full_for(line.len()) {
                self.send().await?;
            }
            self.batch.push(&line)?;
        }
        Ok(())
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        self.receiver.end_part(rows)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn publish(mut self: Box<Self>) -> Result<Delivered, ExportError> {
        self.send().await?;
        Ok(Delivered {
            rows: Some(self.receiver.rows),
            bytes: self.bytes,
            rows_changed: self.receiver.rows_changed,
        })
    }

    /// Does nothing: the server keeps the batches that it has taken.
    async fn abort(self: Box<Self>) {}
}
