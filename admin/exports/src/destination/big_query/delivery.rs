//! One run: upload, load job, MERGE.

use super::account::{Account, Job};
use super::upload::Upload;
use crate::destination::table::Holds;
use crate::destination::table::receiver::Receiver;
use crate::destination::table::row::Cell;
use crate::destination::warehouse::stage_name;
use crate::destination::{Delivered, Delivery};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use uuid::Uuid;

/// Numbers beyond a double's are kept as texts.
const DIGITS_MAX: usize = 300;

/// Rows on their way into the table beside that of events.
pub(super) struct LoadDelivery {
    account: Arc<Account>,
    upload: Upload,
    stage: String,
    load: Job,
    merge: Job,
    receiver: Receiver,
}

impl LoadDelivery {
    pub(super) async fn begin(account: Arc<Account>, run: &RunScope) -> Result<Self, ExportError> {
        let table = account.names.table.clone();
        let location = account.find_dataset().await?;
        account.create_table(&table).await?;
        let stage = stage_name(&table, run);
        let id = job_id(&stage);
        let load = account.job(format!("{id}_load"), location.as_deref());
        let merge = account.job(format!("{id}_merge"), location.as_deref());
        let upload = Upload::begin(Arc::clone(&account), &load_of(&account, &load, &stage)).await?;
        Ok(Self {
            account,
            upload,
            stage,
            load,
            merge,
            receiver: Receiver::new(DIGITS_MAX),
        })
    }
}

/// What the jobs that fill a table are found by: of this try, so that those of another one are not
/// taken for them.
fn job_id(stage: &str) -> String {
    let digest = stage.rsplit('_').next().unwrap_or_default();
    format!("millrace_{digest}_{}", Uuid::new_v4().simple())
}

/// Puts one row into a table of a test, the way rows of a run go.
pub(super) async fn load_row(account: &Arc<Account>, table: &str) -> Result<(), ExportError> {
    let location = account.find_dataset().await?;
    let load = account.job(format!("{}_load", job_id(table)), location.as_deref());
    let body = load_of(account, &load, table);
    let mut upload = Upload::begin(Arc::clone(account), &body).await?;
    let mut row = Vec::new();
    let cells = account.names.layout.columns.iter();
    let cells: Vec<Cell<'_>> = cells.map(|column| Some(tested(column.holds))).collect();
    account.names.append(&cells, &mut row);
    upload.write(&row).await?;
    loaded(account, upload, &load, 1).await
}

/// What a column of the test's row has.
fn tested(holds: Holds) -> Cow<'static, str> {
    let value = match holds {
        Holds::Text => "test",
        Holds::Json => "{}",
        Holds::Integer | Holds::Long => "0",
        Holds::Time => "2000-01-01T00:00:00.000000Z",
    };
    value.into()
}

/// Ends the upload, and waits for the load job and for all its rows.
async fn loaded(
    account: &Account,
    upload: Upload,
    load: &Job,
    rows: u64,
) -> Result<(), ExportError> {
    upload.end().await?;
    let done = account.finished(load).await?;
    let loaded = done.pointer("/statistics/load/outputRows");
    let loaded = loaded.and_then(Value::as_str);
    let loaded: u64 = loaded.and_then(|rows| rows.parse().ok()).unwrap_or(0);
    if loaded != rows {
        return Err(ExportError::rows_missing(loaded, rows));
    }
    Ok(())
}

fn load_of(account: &Account, job: &Job, stage: &str) -> Value {
    let mut schema = account.names.schema();
    // The last column is filled by the MERGE.
    if let Some(fields) = schema.pointer_mut("/fields").and_then(Value::as_array_mut) {
        fields.pop();
    }
    json!({
        "jobReference": job,
        "configuration": {"load": {
            "destinationTable": account.names.reference(stage),
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
            let names = &self.account.names;
            names.append(&names.layout.cells(&line)?, &mut out);
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
        let this = *self;
        let (account, rows) = (this.account, this.receiver.rows);
        let bytes = this.upload.bytes();
        if rows > 0 {
            loaded(&account, this.upload, &this.load, rows).await?;
            let sql = account.names.merge(&this.stage);
            account.query(&this.merge, &sql).await?;
        }
        // What stays is replaced by the next try of the window, and in nobody's way.
        let _ = account.delete_table(&this.stage).await;
        Ok(Delivered {
            rows: Some(rows),
            bytes,
            rows_changed: this.receiver.rows_changed,
        })
    }

    async fn abort(self: Box<Self>) {
        let _ = self.account.delete_table(&self.stage).await;
    }
}
