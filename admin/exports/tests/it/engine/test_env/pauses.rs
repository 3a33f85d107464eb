//! Pauses and new intervals of exports.

use super::TestEnv;
use millrace_catalog::{BatchExportChange, ExportInterval};
use uuid::Uuid;

impl TestEnv {
    pub async fn is_paused(&self, export_id: Uuid) -> bool {
        let found = self.catalog.batch_export(self.place, export_id).await;
        found.unwrap().unwrap().export.paused
    }

    pub async fn pause(&self, export_id: Uuid) {
        let paused = self
            .catalog
            .pause_batch_export(&self.actor, self.place, export_id);
        paused.await.unwrap();
    }

    /// Resumes an export with a backfill of what was missed; returns the backfill's id.
    pub async fn unpause(&self, export_id: Uuid) -> Uuid {
        let unpaused = self
            .catalog
            .unpause_batch_export(&self.actor, self.place, export_id, true);
        unpaused.await.unwrap().backfill.unwrap().id
    }

    pub async fn change_interval(&self, export_id: Uuid, interval: ExportInterval) {
        let change = BatchExportChange {
            interval: Some(interval.to_string()),
            ..BatchExportChange::default()
        };
        let writer = self.writer(self.place);
        let changed = self.catalog.update_batch_export(writer, export_id, change);
        changed.await.unwrap();
    }
}
