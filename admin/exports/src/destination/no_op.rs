//! A destination that takes everything and keeps nothing.

use super::{Delivered, Delivery, Destination, TestStep};
use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;

/// Destination that discards all rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOp;

/// Rows and bytes taken so far.
#[derive(Debug, Default)]
struct Taken {
    rows: u64,
    bytes: u64,
}

#[async_trait]
impl Destination for NoOp {
    fn form(&self) -> RowForm {
        RowForm::JsonLines
    }

    async fn begin(&self, _run: &RunScope, _parts: u32) -> Result<Box<dyn Delivery>, ExportError> {
        Ok(Box::<Taken>::default())
    }

    fn test_steps(&self) -> &'static [TestStep] {
        &[]
    }

    async fn test(&self, _step: TestStep) -> Result<(), ExportError> {
        Ok(())
    }
}

#[async_trait]
impl Delivery for Taken {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        self.rows += rows;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn publish(self: Box<Self>) -> Result<Delivered, ExportError> {
        Ok(Delivered {
            rows: Some(self.rows),
            bytes: self.bytes,
            rows_changed: 0,
        })
    }

    async fn abort(self: Box<Self>) {}
}
