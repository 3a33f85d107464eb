//! Audit entries about keys in the logs of organizations.

use super::PersonalKeys;
use crate::user_changes::{joined_by, record_in};
use millrace_catalog::entities::{
    organization_memberships as memberships, personal_api_keys as keys,
};
use millrace_catalog::{Actor, AuditChange};
use sea_orm::{ColumnTrait, DatabaseTransaction, DbErr, QueryFilter};

impl PersonalKeys<'_> {
    /// Writes a key's change into the logs of the organizations that it can access, or could
    /// `before`: a key belongs to its owner, but concerns those organizations. No log tells of
    /// other organizations. Organizations that are being deleted are skipped.
    pub(crate) async fn record_change(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        audit: AuditChange,
        key: &keys::Model,
        before: Option<&keys::Model>,
    ) -> Result<(), DbErr> {
        let mut reached = joined_by(key.user_id);
        let scoped = [Some(key), before].into_iter().flatten();
        let scoped: Option<Vec<_>> = scoped
            .map(|key| key.scoped_organizations.as_ref())
            .collect();
        if let Some(only) = scoped {
            let only = only.into_iter().flat_map(|ids| ids.0.iter().copied());
            reached = reached.filter(memberships::Column::OrganizationId.is_in(only));
        }
        record_in(self.0, within, actor, audit, reached).await
    }
}
