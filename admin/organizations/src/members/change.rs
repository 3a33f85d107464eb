//! Changing members' levels, and removing members.
//!
//! Changes are decided behind a lock of the organization, so that two owners cannot demote or
//! remove each other at the same time: an organization that has an owner keeps one.

use super::{Member, Members, find_member};
use crate::invites::Invites;
use crate::organizations::delete_membership;
use crate::sessions::end_all_of;
use millrace_catalog::entities::{organization_memberships as memberships, users};
use millrace_catalog::transaction::{Abort, acting_level, lock_organization, locked};
use millrace_catalog::{Activity, ActivityScope, Actor, AuditChange, ChangeError, Level};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter,
};

impl Members<'_> {
    /// Changes a member's level. An owner may promote others to owner, and stays one. Invites of
    /// the member to a level above the new one are deleted.
    ///
    /// # Errors
    ///
    /// No such member; the actor is below administrator, the member or the new level is above the
    /// actor; it is the actor's own membership; or the organization would be left without an owner.
    pub async fn set_level(
        self,
        actor: &Actor,
        organization_id: Uuid,
        user_uuid: Uuid,
        level: Level,
    ) -> Result<Member, ChangeError> {
        let transaction = self.0.begin().await?;
        let set = self.apply_level(&transaction, actor, organization_id, user_uuid, level);
        let set = set.await;
        self.0.finish(transaction, set).await
    }

    async fn apply_level(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization_id: Uuid,
        user_uuid: Uuid,
        level: Level,
    ) -> Result<Member, Abort> {
        lock_organization(within, organization_id).await?;
        let mut member = member_to_change(within, organization_id, user_uuid).await?;
        let acting = acting_level(within, actor, organization_id).await?;
        if actor.user_id() == Some(member.user.id) {
            return Err(forbidden(
                "Nobody changes their own level; ask another administrator.",
            ));
        }
        must_stand_above(acting, &member)?;
        if level > acting {
            return Err(forbidden("Nobody gives a level above their own."));
        }
        if level == member.membership.level {
            return Ok(member);
        }
        if level < Level::Owner {
            must_not_be_last_owner(within, &member).await?;
        }
        let change = memberships::ActiveModel {
            id: ActiveValue::Unchanged(member.membership.id),
            level: ActiveValue::Set(level),
            updated_at: ActiveValue::Set(self.0.now()),
            ..Default::default()
        };
        let before = member.membership.level;
        member.membership = memberships::Entity::update(change).exec(within).await?;
        let audit = member_audit(Activity::Updated, &member);
        let audit = audit.field("level", before.number(), level.number());
        self.0.record(within, actor, audit).await?;
        Invites::new(self.0)
            .drop_by(within, actor, &member.membership, Some(level))
            .await?;
        Ok(member)
    }

    /// Removes a member from an organization, with their roles there and the invites that they
    /// sent. Their keys stay, and lose access; their sessions end. Everybody may leave.
    ///
    /// # Errors
    ///
    /// No such member; it is another's membership, and the actor is below administrator or below
    /// them; or the organization would be left without an owner.
    pub async fn remove(
        self,
        actor: &Actor,
        organization_id: Uuid,
        user_uuid: Uuid,
    ) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let removed = self.take_out(&transaction, actor, organization_id, user_uuid);
        let removed = removed.await;
        self.0.finish(transaction, removed).await
    }

    async fn take_out(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization_id: Uuid,
        user_uuid: Uuid,
    ) -> Result<(), Abort> {
        lock_organization(within, organization_id).await?;
        let member = member_to_change(within, organization_id, user_uuid).await?;
        if actor.user_id() != Some(member.user.id) {
            let acting = acting_level(within, actor, organization_id).await?;
            must_stand_above(acting, &member)?;
        }
        must_not_be_last_owner(within, &member).await?;
        // Nobody signs in meanwhile.
        let user = locked(within, users::Entity::find_by_id(member.user.id));
        user.one(within).await?;
        end_all_of(within, member.user.id, self.0.now()).await?;
        delete_membership(within, &member.membership).await?;
        let audit = member_audit(Activity::Deleted, &member);
        let audit = audit.field("level", member.membership.level.number(), ());
        self.0.record(within, actor, audit).await?;
        Invites::new(self.0)
            .drop_by(within, actor, &member.membership, None)
            .await
    }
}

pub(crate) fn member_audit(activity: Activity, member: &Member) -> AuditChange {
    let scope = ActivityScope::Membership;
    let organization_id = member.membership.organization_id;
    let user = &member.user;
    AuditChange::new(activity, scope, organization_id, &user.uuid, &user.email)
}

fn forbidden(detail: &'static str) -> Abort {
    ChangeError::forbidden(detail).into()
}

async fn member_to_change(
    within: &DatabaseTransaction,
    organization_id: Uuid,
    user_uuid: Uuid,
) -> Result<Member, Abort> {
    let found = find_member(within, organization_id, user_uuid).await?;
    found.ok_or_else(|| ChangeError::not_found("member", &user_uuid).into())
}

/// Refuses an actor who may not change the member: administrators change members and one another;
/// only owners change owners.
fn must_stand_above(acting: Level, member: &Member) -> Result<(), Abort> {
    if acting < Level::Administrator {
        return Err(forbidden("Only administrators change other members."));
    }
    if member.membership.level > acting {
        return Err(forbidden("Only owners change owners."));
    }
    Ok(())
}

async fn must_not_be_last_owner(
    within: &DatabaseTransaction,
    member: &Member,
) -> Result<(), Abort> {
    if member.membership.level < Level::Owner {
        return Ok(());
    }
    let owners = memberships::Entity::find()
        .filter(memberships::Column::OrganizationId.eq(member.membership.organization_id))
        .filter(memberships::Column::Level.eq(Level::Owner))
        .count(within)
        .await?;
    if owners > 1 {
        return Ok(());
    }
    let detail = "This is the last owner; make somebody else an owner first.";
    Err(ChangeError::invalid(None, "invalid_input", detail).into())
}
