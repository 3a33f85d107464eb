//! Copies of the model's data folder, and of its machine.

use super::folder::Snapshot;
use super::process::{LIMITS, Model};
use crate::ship::plan::Plan;

impl Model {
    /// Copies the folder while the process is stopped.
    pub(super) fn copy(&mut self) {
        self.copy = Some((self.folder.clone(), self.rows));
        self.restart_process();
    }

    /// Restores the copy: rows that came since are in ClickHouse or gone.
    pub(super) fn restore_copy(&mut self) {
        let Some((folder, rows)) = self.copy.clone() else {
            return;
        };
        self.server.state().finish_running();
        self.folder = folder;
        self.gone.extend(rows..self.rows);
        self.restart_process();
    }

    /// Copies the machine once nothing waits: what does is not promised to be stored once.
    pub(super) async fn take_snapshot(&mut self) {
        self.drain().await;
        self.snapshot = Some(Snapshot {
            folder: self.folder.clone(),
            rows: self.rows,
            plan: self.plan.checkpoint(),
            start_mark: self.start_mark,
        });
    }

    /// Puts the machine back: its process goes on as the same start, and nothing tells it.
    pub(super) fn restore_memory(&mut self) {
        let Some(snapshot) = &self.snapshot else {
            return;
        };
        self.server.state().finish_running();
        self.folder = snapshot.folder.clone();
        self.gone.extend(snapshot.rows..self.rows);
        self.start_mark = snapshot.start_mark;
        let (plan, suspect_below) = (snapshot.plan.clone(), snapshot.plan.suspect_below);
        self.plan = Plan::restore(LIMITS, plan, self.start_mark, suspect_below);
        self.forget_tasks();
    }
}
