//! Delivery of one run: upload, load job, MERGE.

use super::service::{BigQueryService, Job};
use super::upload::Upload;
use crate::destination::table::ColumnType;
use crate::destination::table::receiver::Receiver;
use crate::destination::table::row::Cell;
use crate::destination::warehouse::stage::{Stage, stage_name};
use crate::destination::{Delivered, Delivery};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use uuid::Uuid;

/// Digits of a number at most: larger ones than a double are stored as texts.
const DIGITS_MAX: usize = 300;

/// Delivery of rows into the staging table.
pub(super) struct LoadDelivery {
    service: Arc<BigQueryService>,
    upload: Upload,
    /// Name of the staging table.
    stage: String,
    /// Job that loads the rows into the staging table.
    load: Job,
    /// Job that merges the staging table into the table.
    merge: Job,
    receiver: Receiver,
}

impl LoadDelivery {
    pub(super) async fn begin(
        service: Arc<BigQueryService>,
        run: &RunScope,
    ) -> Result<Self, ExportError> {
        let table = service.table_ref.table.clone();
        let location = service.find_dataset().await?;
        service.create_table(&table).await?;
        let stage = stage_name(&table, run);
        let id = job_id(&stage);
        let load = service.job(format!("{id}_load"), location.as_deref());
        let merge = service.job(format!("{id}_merge"), location.as_deref());
        let upload =
            Upload::begin(Arc::clone(&service), &load_job(&service, &load, &stage)).await?;
        Ok(Self {
            service,
            upload,
            stage,
            load,
            merge,
            receiver: Receiver::new(DIGITS_MAX),
        })
    }
}

/// Id prefix of the jobs of this try, so that another try's jobs are not mistaken for them.
fn job_id(stage: &str) -> String {
    let digest = stage.rsplit('_').next().unwrap_or_default();
    format!("millrace_{digest}_{}", Uuid::new_v4().simple())
}

/// Loads one row into a test's table, in the same way as rows of a run.
pub(super) async fn load_row(
    service: &Arc<BigQueryService>,
    table: &str,
) -> Result<(), ExportError> {
    let location = service.find_dataset().await?;
    let load = service.job(format!("{}_load", job_id(table)), location.as_deref());
    let body = load_job(service, &load, table);
    let mut upload = Upload::begin(Arc::clone(service), &body).await?;
    let mut row = Vec::new();
    let cells = service.table_ref.layout.columns.iter();
    let cells: Vec<Cell<'_>> = cells
        .map(|column| Some(test_value(column.column_type)))
        .collect();
    service.table_ref.append(&cells, &mut row);
    upload.write(&row).await?;
    finish_load(service, upload, &load, 1).await
}

/// Value of a column in the test's row.
fn test_value(column_type: ColumnType) -> Cow<'static, str> {
    let value = match column_type {
        ColumnType::Text => "test",
        ColumnType::Json => "{}",
        ColumnType::Integer | ColumnType::Long => "0",
        ColumnType::Time => "2000-01-01T00:00:00.000000Z",
    };
    value.into()
}

/// Ends the upload, and waits for the load job and for all its rows.
async fn finish_load(
    service: &BigQueryService,
    upload: Upload,
    load: &Job,
    rows: u64,
) -> Result<(), ExportError> {
    upload.end().await?;
    let done = service.finished(load).await?;
    let loaded = done.pointer("/statistics/load/outputRows");
    let loaded = loaded.and_then(Value::as_str);
    let loaded: u64 = loaded.and_then(|rows| rows.parse().ok()).unwrap_or(0);
    if loaded != rows {
        return Err(ExportError::rows_missing(loaded, rows));
    }
    Ok(())
}

/// Body of the request that starts a load job.
fn load_job(service: &BigQueryService, job: &Job, stage: &str) -> Value {
    let mut schema = service.table_ref.schema();
    // The MERGE fills the last column.
    if let Some(fields) = schema.pointer_mut("/fields").and_then(Value::as_array_mut) {
        fields.pop();
    }
    json!({
        "jobReference": job,
        "configuration": {"load": {
            "destinationTable": service.table_ref.reference(stage),
            "schema": schema,
            "sourceFormat": "NEWLINE_DELIMITED_JSON",
            "createDisposition": "CREATE_IF_NEEDED",
            "writeDisposition": "WRITE_TRUNCATE",
            "maxBadRecords": 0,
        }},
    })
}

#[async_trait]
impl Delivery for LoadDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.receiver.lines.push(&bytes);
        let mut out = Vec::new();
        while let Some(line) = self.receiver.lines.next_line()? {
            let line = self.receiver.take(&line);
            let table_ref = &self.service.table_ref;
            table_ref.append(&table_ref.layout.cells(&line)?, &mut out);
        }
        self.upload.write(&out).await
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        self.receiver.end_part(rows)
    }

    fn bytes(&self) -> u64 {
        self.upload.bytes()
    }

    async fn publish(self: Box<Self>) -> Result<Delivered, ExportError> {
        let Self {
            service,
            upload,
            stage,
            load,
            merge,
            receiver,
        } = *self;
        let (rows, bytes) = (receiver.rows, upload.bytes());
        let mut ending = Stage::new(stage.clone());
        let merging = async {
            if rows > 0 {
                finish_load(&service, upload, &load, rows).await?;
                service
                    .query(&merge, &service.table_ref.merge(&stage))
                    .await?;
            }
            Ok::<(), ExportError>(())
        };
        let merged = merging.await;
        let dropping = async {
            if merged.is_err() {
                tokio::join!(service.cancel(&load), service.cancel(&merge));
            }
            service.delete_table(&stage).await
        };
        // No try may follow.
        ending.end(dropping).await;
        merged?;
        Ok(Delivered {
            rows: Some(rows),
            bytes,
            rows_changed: receiver.rows_changed,
        })
    }

    async fn abort(self: Box<Self>) {
        let mut ending = Stage::new(self.stage.clone());
        ending.end(self.service.delete_table(&self.stage)).await;
    }
}
