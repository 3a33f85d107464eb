//! Backfills of exports: asked for, begun and read.

use super::{NOW, TestEnv, WINDOW};
use millrace_catalog::{BatchExportBackfill, UtcTime};
use millrace_exports::{BackfillRange, Backfills, ExportRuns};
use uuid::Uuid;

impl TestEnv {
    /// Starts a backfill; returns its id.
    pub async fn backfill(&self, export_id: Uuid, start: Option<i64>, end: Option<i64>) -> Uuid {
        let at = |micros: i64| UtcTime(NOW.0 + micros);
        let range = BackfillRange {
            start_at: start.map(at),
            end_at: end.map(at),
        };
        let asked = Backfills::new(&self.catalog).start(&self.actor, self.place, export_id, range);
        asked.await.unwrap().id
    }

    /// Plans a backfill of one run and begins it: that of the window before the start of the test.
    pub async fn begin_backfill(&self, id: Uuid) {
        let (catalog, window) = (&self.catalog, (UtcTime(NOW.0 - WINDOW), UtcTime(NOW.0)));
        assert!(Backfills::new(catalog).plan(id, 1).await.unwrap());
        let begun = ExportRuns::new(catalog).begin_of_backfill(id, window);
        assert!(begun.await.unwrap().is_some());
    }

    /// Reads a backfill.
    pub async fn backfill_of(&self, export_id: Uuid, id: Uuid) -> BatchExportBackfill {
        let seen = Backfills::new(&self.catalog).get(self.place, export_id, id);
        seen.await.unwrap().unwrap()
    }
}
