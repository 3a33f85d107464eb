//! Pauses and new intervals of exports.

use super::TestEnv;
use millrace_exports::{BatchExportChange, BatchExports, ExportInterval};
use uuid::Uuid;

impl TestEnv {
    pub async fn is_paused(&self, export_id: Uuid) -> bool {
        let found = BatchExports::new(&self.catalog)
            .get(self.place, export_id)
            .await;
        found.unwrap().unwrap().export.paused
    }

    pub async fn pause(&self, export_id: Uuid) {
        let paused = BatchExports::new(&self.catalog).pause(&self.actor, self.place, export_id);
        paused.await.unwrap();
    }

    /// Resumes an export with a backfill of what was missed; returns the backfill's id.
    pub async fn unpause(&self, export_id: Uuid) -> Uuid {
        let unpaused =
            BatchExports::new(&self.catalog).unpause(&self.actor, self.place, export_id, true);
        unpaused.await.unwrap().backfill.unwrap().id
    }

    pub async fn change_interval(&self, export_id: Uuid, interval: ExportInterval) {
        let change = BatchExportChange {
            interval: Some(interval.to_string()),
            ..BatchExportChange::default()
        };
        let writer = self.writer(self.place);
        let changed = BatchExports::new(&self.catalog).update(writer, export_id, change);
        changed.await.unwrap();
    }
}
