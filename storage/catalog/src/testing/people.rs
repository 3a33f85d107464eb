//! Members that are added without an invitation.

use crate::organizations::insert_membership;
use crate::{Catalog, CatalogError, Level, Membership};
use sea_orm::prelude::Uuid;

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
        let added = insert_membership(&self.writer, organization_id, user_id, level, now).await;
        added.map_err(|error| self.error(&error))
    }
}
