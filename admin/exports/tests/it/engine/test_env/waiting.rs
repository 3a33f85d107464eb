//! Waits for results of processes.

use super::TestEnv;
use millrace_catalog::{BatchExportRun, PageRequest, RunStatus};
use millrace_exports::engine::Notice;
use millrace_exports::{Backfills, ExportLogFilter, ExportLogs, ExportPlace};
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

impl TestEnv {
    /// Waits until there are this many runs and all have ended.
    pub async fn until_ended(&self, export_id: Uuid, count: usize) -> Vec<BatchExportRun> {
        let ended = async {
            loop {
                let runs = self.runs(export_id).await;
                if runs.len() >= count && runs.iter().all(|run| !run.status.is_open()) {
                    return runs;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(120), ended).await;
        ended.expect("the runs do not end")
    }

    /// Claims of open runs, by living and dead processes.
    pub async fn claims(&self, export_id: Uuid) -> Vec<Uuid> {
        let runs = self.runs(export_id).await;
        let open = runs.into_iter().filter(|run| run.status.is_open());
        open.filter_map(|run| run.claim).collect()
    }

    /// Waits until a run has a new claim, or this many runs exist and none is open.
    pub async fn until_under_way(&self, export_id: Uuid, before: &[Uuid], count: usize) {
        let seen = async {
            loop {
                let claims = self.claims(export_id).await;
                let runs = self.runs(export_id).await;
                let is_open = runs.iter().any(|run| run.status.is_open());
                let is_done = runs.len() >= count && !is_open;
                if is_done || claims.iter().any(|claim| !before.contains(claim)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(120), seen).await;
        seen.expect("nothing is made");
    }

    /// Waits until an export's runs were tried so many times: each try has a claim of its own.
    pub async fn until_tried(&self, export_id: Uuid, count: usize) {
        let tried = async {
            let mut seen = BTreeSet::new();
            while seen.len() < count {
                seen.extend(self.claims(export_id).await);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let tried = tokio::time::timeout(Duration::from_secs(120), tried).await;
        tried.expect("the runs are not tried so often");
    }

    /// Waits until the first run meets a condition.
    pub async fn until_run(
        &self,
        export_id: Uuid,
        is_so: impl Fn(&BatchExportRun) -> bool,
    ) -> BatchExportRun {
        let seen = async {
            loop {
                let runs = self.runs(export_id).await;
                if let Some(run) = runs.into_iter().next().filter(&is_so) {
                    return run;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(120), seen).await;
        seen.expect("the run does not get so far")
    }

    /// Waits until an export's number of log lines meets a condition.
    pub async fn until_lines(&self, export_id: Uuid, is_so: impl Fn(u64) -> bool) {
        let filter = ExportLogFilter::default();
        let page = PageRequest {
            limit: 1,
            offset: 0,
        };
        let seen = async {
            loop {
                let lines =
                    ExportLogs::new(&self.catalog).list(self.place, export_id, &filter, page);
                if is_so(lines.await.unwrap().unwrap().count) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(120), seen).await;
        seen.expect("there are never so many lines");
    }

    /// Waits until a backfill has ended; returns its status.
    pub async fn backfill_ended(&self, export_id: Uuid, id: Uuid) -> RunStatus {
        self.backfill_ended_at(self.place, export_id, id).await
    }

    /// Waits until another organization's backfill has ended; returns its status.
    pub async fn backfill_ended_at(
        &self,
        place: ExportPlace,
        export_id: Uuid,
        id: Uuid,
    ) -> RunStatus {
        let ended = async {
            loop {
                let seen = Backfills::new(&self.catalog)
                    .get(place, export_id, id)
                    .await;
                let status = seen.unwrap().unwrap().status;
                if !status.is_open() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(120), ended).await;
        ended.expect("the backfill does not end")
    }

    /// Waits for the first notice to administrators, which follows the end of a run; returns all
    /// notices.
    pub async fn until_notified(&self) -> Vec<(Notice, String)> {
        let notices = async {
            loop {
                let notices = self.notices.lock().unwrap().clone();
                if !notices.is_empty() {
                    return notices;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let notices = tokio::time::timeout(Duration::from_secs(120), notices).await;
        notices.expect("nobody is told")
    }
}
