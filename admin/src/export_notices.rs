//! Tells administrators of exports that somebody should look after.

use crate::mail::{ExportTrouble, Outbox, Trouble};
use async_trait::async_trait;
use millrace_catalog::{BatchExport, Catalog};
use millrace_exports::engine::{Notice, Notices};

/// Sends mail where there is a server for it; everything is in the log as well.
#[derive(Clone, Debug)]
pub struct ExportNotices {
    /// Knows who the administrators are.
    pub catalog: Catalog,
    /// Sends; `None`: nothing is sent.
    pub outbox: Option<Outbox>,
}

#[async_trait]
impl Notices for ExportNotices {
    async fn tell(&self, notice: Notice, export: &BatchExport, why: &str) {
        let id = export.organization_id;
        tracing::warn!(export = %export.id, ?notice, why, "an export needs somebody");
        let Some(outbox) = &self.outbox else { return };
        let organization = match self.catalog.organization(id).await {
            Ok(Some(organization)) => organization,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "administrators are not told of an export");
                return;
            }
        };
        let room = match outbox.reserve_notice(id) {
            Ok(room) => room,
            Err(full) => {
                tracing::warn!(%full, "administrators are not told of an export");
                return;
            }
        };
        let trouble = ExportTrouble {
            export: export.name.clone(),
            organization: organization.name,
            trouble: match notice {
                Notice::RunFailed => Trouble::RunFailed,
                Notice::Paused => Trouble::Paused,
                Notice::Waits => Trouble::Waits,
            },
            why: why.to_owned(),
            path: format!("/api/organizations/{id}/batch_exports/{}/", export.id),
        };
        let catalog = self.catalog.clone();
        room.announce(trouble, move |after| {
            let catalog = catalog.clone();
            async move { catalog.administrator_addresses(id, after).await }
        });
    }
}
