//! Invites: reading and deleting them.
//!
//! | Module | Holds |
//! |---|---|
//! | `create` | creating invites, and new links for them |
//! | `validation` | validation of new invites |
//! | `signup` | accepting invites |
//!
//! An invite is opened by its token, of which only a hash is stored; its id opens nothing. Expired
//! invites stay listed until they are deleted, sent again or replaced.

mod create;
mod signup;
mod validation;

pub use create::SentInvite;
pub use signup::{Joined, OpenInvite};
pub use validation::NewInvite;

use crate::members::users_by_id;
use millrace_catalog::entities::{
    organization_invites as invites, organization_memberships as memberships, users,
};
use millrace_catalog::transaction::{Abort, lock_organization, must_act_as};
use millrace_catalog::{
    Activity, ActivityScope, Actor, AuditChange, Catalog, CatalogError, ChangeError, Level, Page,
    PageRequest, UtcTime,
};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect,
};

/// Invite as members see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invite {
    /// Row of the invite.
    pub record: invites::Model,
    /// Inviter; `None`: the operator.
    pub created_by: Option<users::Model>,
    /// True if its token has expired.
    pub is_expired: bool,
}

impl Invite {
    fn new(record: invites::Model, created_by: Option<users::Model>, now: UtcTime) -> Self {
        Self {
            is_expired: record.expires_at <= now,
            record,
            created_by,
        }
    }
}

/// Invites to organizations.
#[derive(Clone, Copy, Debug)]
pub struct Invites<'a>(&'a Catalog);

impl<'a> Invites<'a> {
    /// Returns a handle to the invites in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl Invites<'_> {
    /// Page of an organization's invites, oldest first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        organization_id: Uuid,
        page: PageRequest,
    ) -> Result<Page<Invite>, CatalogError> {
        let query = invites::Entity::find()
            .filter(invites::Column::OrganizationId.eq(organization_id))
            .order_by_asc(invites::Column::CreatedAt)
            .order_by_asc(invites::Column::Id);
        let now = self.0.now();
        let read = async {
            let count = query.clone().count(self.0.reader()).await?;
            let part = query.offset(page.offset).limit(page.limit);
            let part = part.all(self.0.reader()).await?;
            let inviters = part.iter().filter_map(|invite| invite.created_by_id);
            let inviters = users_by_id(self.0.reader(), inviters).await?;
            let rows = part.into_iter().map(|record| {
                let inviter = record.created_by_id.and_then(|id| inviters.get(&id));
                Invite::new(record, inviter.cloned(), now)
            });
            Ok(Page {
                count,
                rows: rows.collect(),
            })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Address that an invite is mailed to; it never changes. `None`: the organization has no such
    /// invite.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn address(
        self,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<Option<String>, CatalogError> {
        let found = invites::Entity::find_by_id(id)
            .filter(invites::Column::OrganizationId.eq(organization_id))
            .one(self.0.reader());
        let found = found.await.map_err(|error| self.0.error(&error))?;
        Ok(found.map(|invite| invite.target_email))
    }

    /// Deletes an invite, whose link stops working; any member may, up to their own level.
    ///
    /// # Errors
    ///
    /// The organization has no such invite, or its level is above the actor's.
    pub async fn delete(
        self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let deleted = async {
            lock_organization(&transaction, organization_id).await?;
            let invite = find_invite(&transaction, organization_id, id).await?;
            must_act_as(&transaction, actor, organization_id, invite.level).await?;
            self.drop_one(&transaction, actor, invite).await
        };
        let deleted = deleted.await;
        self.0.finish(transaction, deleted).await
    }

    async fn drop_one(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        invite: invites::Model,
    ) -> Result<(), Abort> {
        invites::Entity::delete_by_id(invite.id)
            .exec(within)
            .await?;
        let audit = invite_audit(Activity::Deleted, &invite);
        self.0.record(within, actor, audit).await?;
        Ok(())
    }

    /// Deletes all invites of an address to an organization.
    async fn drop_of(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization_id: Uuid,
        email_key: &str,
    ) -> Result<(), Abort> {
        let older = invites::Entity::find()
            .filter(invites::Column::OrganizationId.eq(organization_id))
            .filter(invites::Column::EmailKey.eq(email_key))
            .all(within)
            .await?;
        for invite in older {
            self.drop_one(within, actor, invite).await?;
        }
        Ok(())
    }

    /// Deletes a member's invites to a level above their new one; all of them if they leave.
    /// Otherwise a demoted member could get the old level back by an invite of their own.
    pub(crate) async fn drop_by(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        membership: &memberships::Model,
        level: Option<Level>,
    ) -> Result<(), Abort> {
        let mut too_high = invites::Entity::find()
            .filter(invites::Column::OrganizationId.eq(membership.organization_id))
            .filter(invites::Column::CreatedById.eq(membership.user_id));
        if let Some(level) = level {
            too_high = too_high.filter(invites::Column::Level.gt(level));
        }
        for invite in too_high.all(within).await? {
            self.drop_one(within, actor, invite).await?;
        }
        Ok(())
    }
}

async fn find_invite(
    within: &DatabaseTransaction,
    organization_id: Uuid,
    id: Uuid,
) -> Result<invites::Model, Abort> {
    let found = invites::Entity::find_by_id(id)
        .filter(invites::Column::OrganizationId.eq(organization_id))
        .one(within)
        .await?;
    found.ok_or_else(|| ChangeError::not_found("invite", &id).into())
}

fn invite_audit(activity: Activity, invite: &invites::Model) -> AuditChange {
    let (scope, name) = (ActivityScope::Invite, &invite.target_email);
    AuditChange::new(activity, scope, invite.organization_id, &invite.id, name)
}
