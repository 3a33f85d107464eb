//! Services that take SQL statements, as warehouses.

use super::api::Api;
use super::delivery::WarehouseDelivery;
use super::engine::Engine;
use super::service::{Service, scratch_name};
use super::steps;
use crate::destination::{Delivery, TestStep};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use std::sync::Arc;
use uuid::Uuid;

#[async_trait]
impl<E: Engine + 'static> Service for E {
    fn api(&self) -> &Api {
        Engine::api(self)
    }

    async fn begin(self: Arc<Self>, run: &RunScope) -> Result<Box<dyn Delivery>, ExportError> {
        Ok(Box::new(WarehouseDelivery::begin(self, run).await?))
    }

    async fn test(self: Arc<Self>, step: TestStep, test_id: Uuid) -> Result<(), ExportError> {
        let scratch = scratch_name(&self.table_ref().table, test_id);
        steps::make(&*self, &scratch, step).await
    }
}
