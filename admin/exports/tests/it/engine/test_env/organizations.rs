//! Other organizations in the environment.

use super::TestEnv;
use millrace_catalog::{BatchExport, BatchExportRun, PageRequest, ProjectId};
use millrace_exports::{
    BatchExports, DestinationLimits, ExportPlace, ExportRuns, ExportWriter, NewBatchExport,
    RunFilter, RunOrder,
};
use millrace_organizations::Organizations;
use std::time::Duration;
use uuid::Uuid;

impl TestEnv {
    /// Creates an organization with a project.
    pub async fn organization(&self, name: &str) -> ExportPlace {
        let made = Organizations::new(&self.catalog).create(&self.actor, name, None);
        ExportPlace {
            organization_id: made.await.unwrap().id,
            project_id: None,
        }
    }

    /// Creates an export of an organization.
    pub async fn make_at(&self, place: ExportPlace, new: NewBatchExport) -> BatchExport {
        let made = BatchExports::new(&self.catalog).create(self.writer(place), new);
        made.await.unwrap().export
    }

    pub(super) fn writer(&self, place: ExportPlace) -> ExportWriter<'_> {
        ExportWriter {
            actor: &self.actor,
            place,
            key: &self.key,
            limits: DestinationLimits {
                allow_private: true,
                is_public: |_| true,
                export_root: Some(self.root.path()),
            },
        }
    }

    /// Runs of an organization's export, in the order of their windows.
    pub async fn runs_at(&self, place: ExportPlace, export_id: Uuid) -> Vec<BatchExportRun> {
        let filter = RunFilter {
            order: RunOrder::EarliestWindowFirst,
            ..RunFilter::default()
        };
        let page = PageRequest {
            limit: 1_000,
            offset: 0,
        };
        let listed = ExportRuns::new(&self.catalog).list(place, export_id, filter, page);
        listed.await.unwrap().unwrap().rows
    }

    /// Number of runs of several exports that are under way.
    pub async fn under_way_at(&self, place: ExportPlace, exports: &[Uuid]) -> usize {
        let mut count = 0;
        for export_id in exports {
            let runs = self.runs_at(place, *export_id).await;
            count += runs.iter().filter(|run| run.claim.is_some()).count();
        }
        count
    }

    /// Waits until one of the exports has a run under way.
    pub async fn until_under_way_at(&self, place: ExportPlace, exports: &[Uuid]) {
        let seen = async {
            while self.under_way_at(place, exports).await == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(120), seen).await;
        seen.expect("nothing is made");
    }

    /// Stores a number of events of half a megabyte each, in the first window.
    pub fn store_large(&self, project_id: ProjectId, count: u32) {
        let arrived = super::seconds(super::NOW.0);
        // As random as possible: repetitive texts cost patterns nothing.
        let text = "translate(hex(randomString(250000)), '0123456789ABCDEF', 'abababababababab')";
        let sql = format!(
            "INSERT INTO `{}`.events (uuid, event, properties, timestamp, team_id, distinct_id, created_at, \
             historical_migration) SELECT generateUUIDv4(), 'large', {text}, toDateTime64({arrived}, 6, 'UTC'), {}, 'a', \
             toDateTime64({arrived}, 6, 'UTC'), false FROM numbers({count})",
            self.database, project_id.0
        );
        self.ask(&sql, String::new());
    }
}
