//! A server that takes events over HTTP.
//!
//! A URL whose path ends with `/batch` is taken for one that speaks as our own ingestion does:
//! `{"api_key", "historical_migration": true, "batch": […]}`. Any other gets lines of JSON
//! (`application/x-ndjson`) with the token as `Authorization: Bearer`.
//!
//! Batches are bounded and follow one another. Each has an `Idempotency-Key` made of the export,
//! the window, the number of the batch and a digest of its bytes. A batch is sent again only if
//! its outcome is not known, or if the server said that it did not take it, and then under the
//! same key. There is no transaction: what a run had sent before it failed is there, and the next
//! try sends it again, under the same keys if the rows are the same; events have their `uuid`.
//!
//! | Module | Holds |
//! |---|---|
//! | `batch` | events gathered into bodies |
//! | `send` | one request, tried until it is known to have succeeded or not |

mod batch;
mod send;

use super::calls::{Pace, reach};
use super::dialler::Dialler;
use super::settings::Settings;
use super::table::receiver::Receiver;
use super::table::run_key;
use super::{Delivered, Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use batch::{Batch, Shape};
use bytes::Bytes;
use millrace_catalog::ExportModel;
use send::Sender;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use url::Url;

/// A server that takes events.
pub struct Http {
    sender: Arc<Sender>,
    shape: Shape,
    token: String,
    dialler: Arc<dyn Dialler>,
    url: Url,
    pace: Pace,
}

impl Http {
    /// The server that a configuration names; nothing is dialled yet.
    ///
    /// # Errors
    /// A field is missing, or certificates cannot be read.
    pub fn open(
        config: &Value,
        secrets: &BTreeMap<String, String>,
        dialler: Arc<dyn Dialler>,
        pace: Pace,
    ) -> Result<Self, ExportError> {
        let settings = Settings::new(config, secrets);
        let no_url = |_| ExportError::hopeless("The destination's url is no URL.");
        let url = Url::parse(settings.required("url")?).map_err(no_url)?;
        let token = settings.required("token")?.to_owned();
        let shape = Shape::of(&url);
        let client = dialler.http_client()?;
        let sender = Sender::new(client, url.clone(), shape, &token, pace)?;
        Ok(Self {
            sender: Arc::new(sender),
            shape,
            token,
            dialler,
            url,
            pace,
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
            return Err(ExportError::hopeless(
                "This destination takes events only: export persons to files or tables.",
            ));
        }
        Ok(Box::new(HttpDelivery {
            sender: Arc::clone(&self.sender),
            batch: Batch::new(self.shape, &self.token),
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
            TestStep::Reach => reach(&*self.dialler, &self.url, &self.pace).await,
            _ => {
                let empty = Batch::new(self.shape, &self.token).take();
                self.sender.test(empty).await
            }
        }
    }
}

/// Events on their way.
struct HttpDelivery {
    sender: Arc<Sender>,
    batch: Batch,
    run: String,
    /// How many were sent.
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
            // Bytes that are not UTF-8 and half surrogate pairs are no JSON that others can read.
            let line = self.receiver.take(&line);
            if self.batch.has_no_room_for(line.len()) {
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

    /// What the server has taken, it has.
    async fn abort(self: Box<Self>) {}
}
