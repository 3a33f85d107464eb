//! Mails to administrators about exports that need attention.

use crate::mail::{ExportAlert, ExportProblem, Outbox};
use async_trait::async_trait;
use millrace_catalog::{BatchExport, Catalog};
use millrace_exports::engine::{Notice, Notices};
use millrace_organizations::{Members, Organizations};

/// Sends notices of exports by mail, if a mail server is configured; logs them always.
#[derive(Clone, Debug)]
pub struct ExportNotices {
    /// Catalog that has the administrators' addresses.
    pub catalog: Catalog,
    /// Outbox to send with; `None`: nothing is sent.
    pub outbox: Option<Outbox>,
}

#[async_trait]
impl Notices for ExportNotices {
    async fn tell(&self, notice: Notice, export: &BatchExport, why: &str) {
        let id = export.organization_id;
        tracing::warn!(export = %export.id, ?notice, why, "an export needs somebody");
        let Some(outbox) = &self.outbox else { return };
        let organization = match Organizations::new(&self.catalog).get(id).await {
            Ok(Some(organization)) => organization,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "administrators are not notified of an export");
                return;
            }
        };
        let slot = match outbox.reserve_notice(id) {
            Ok(slot) => slot,
            Err(full) => {
                tracing::warn!(%full, "administrators are not notified of an export");
                return;
            }
        };
        let alert = ExportAlert {
            export: export.name.clone(),
            organization: organization.name,
            problem: match notice {
                Notice::RunFailed => ExportProblem::RunFailed,
                Notice::Paused => ExportProblem::Paused,
                Notice::Waits => ExportProblem::Waits,
            },
            why: why.to_owned(),
            path: format!("/api/organizations/{id}/batch_exports/{}/", export.id),
        };
        let catalog = self.catalog.clone();
        slot.announce(alert, move |after| {
            let catalog = catalog.clone();
            async move {
                Members::new(&catalog)
                    .administrator_addresses(id, after)
                    .await
            }
        });
    }
}
