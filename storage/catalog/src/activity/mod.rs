//! Activity log, the audit trail of changes. An entry is written in the transaction of its change,
//! so there is neither a change without an entry nor an entry without a change.
//!
//! `audit_change` holds the contents of an entry, `scope` the kinds of resources and actions.

mod audit_change;
mod scope;

pub use audit_change::{ActivityChange, ActivityDetail, AuditChange};
pub use scope::{Activity, ActivityScope};

use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::activity_log as log;
use sea_orm::prelude::Uuid;
use sea_orm::{ActiveValue, DatabaseTransaction, DbErr, EntityTrait};

impl Catalog {
    /// Writes an entry within the transaction of its change.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn record(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        audit: AuditChange,
    ) -> Result<(), DbErr> {
        let row = log::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            organization_id: ActiveValue::Set(audit.organization_id),
            user_id: ActiveValue::Set(actor.user_id()),
            key_id: ActiveValue::Set(actor.key_id()),
            actor_name: ActiveValue::Set(actor.name().to_owned()),
            actor_email: ActiveValue::Set(actor.email().map(str::to_owned)),
            activity: ActiveValue::Set(audit.activity),
            scope: ActiveValue::Set(audit.scope),
            item_id: ActiveValue::Set(audit.item_id),
            detail: ActiveValue::Set(audit.detail.shortened()),
            created_at: ActiveValue::Set(self.now()),
        };
        log::Entity::insert(row)
            .exec_without_returning(within)
            .await
            .map(drop)
    }
}
