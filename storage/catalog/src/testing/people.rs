//! Members that are added without an invitation.

use crate::entities::{organization_memberships as memberships, organizations};
use crate::{Catalog, CatalogError, Level, Membership};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveValue, ColumnTrait, DbErr, EntityTrait, QueryFilter};

impl Catalog {
    /// Makes a user a member, past invites and rules and without an entry in the log.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn add_member(
        &self,
        organization_id: Uuid,
        user_id: i64,
        level: Level,
    ) -> Result<Membership, CatalogError> {
        let now = self.now();
        let added = async {
            let row = memberships::ActiveModel {
                id: ActiveValue::Set(Uuid::now_v7()),
                organization_id: ActiveValue::Set(organization_id),
                user_id: ActiveValue::Set(user_id),
                level: ActiveValue::Set(level),
                joined_at: ActiveValue::Set(now),
                updated_at: ActiveValue::Set(now),
            };
            let inserted = memberships::Entity::insert(row).exec_with_returning(&self.writer);
            let membership = inserted.await?;
            let count = organizations::Column::MemberCount;
            organizations::Entity::update_many()
                .col_expr(count, Expr::col(count).add(1_i64))
                .filter(organizations::Column::Id.eq(organization_id))
                .exec(&self.writer)
                .await?;
            Ok(membership)
        };
        added.await.map_err(|error: DbErr| self.error(&error))
    }
}
