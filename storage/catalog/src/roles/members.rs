//! Who has a role.

use super::{first, must_find, role_deed};
use crate::activity::Activity;
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::role_memberships as holders;
use crate::entities::{organization_memberships as memberships, roles, users};
use crate::error::{CatalogError, ChangeError};
use crate::features::ROLE_BASED_ACCESS;
use crate::level::Level;
use crate::limits::{ROLE_MEMBERSHIPS_MAX, must_have_fewer};
use crate::members::{Member, find_member};
use crate::page::{Page, PageRequest};
use crate::transaction::{Abort, lock_organization, must_act_as};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};

/// A member who has a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleMember {
    /// Which role, and since when.
    pub record: holders::Model,
    /// Who.
    pub member: Member,
}

impl Catalog {
    /// A part of those who have a role, who got it first first; `None` if the organization has no
    /// such role.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn role_members_of(
        &self,
        organization_id: Uuid,
        role_id: Uuid,
        page: PageRequest,
    ) -> Result<Option<Page<RoleMember>>, CatalogError> {
        let read = async {
            if !has_role(&self.db, organization_id, role_id).await? {
                return Ok(None);
            }
            let query = holders::Entity::find().filter(holders::Column::RoleId.eq(role_id));
            let count = query.clone().count(&self.db).await?;
            let part = in_order(query).offset(page.offset).limit(page.limit);
            let rows = with_members(&self.db, part).await?;
            Ok(Some(Page { count, rows }))
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// One of them; `None` if the organization has no such role, or the role nobody of this id.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn role_member(
        &self,
        organization_id: Uuid,
        role_id: Uuid,
        id: Uuid,
    ) -> Result<Option<RoleMember>, CatalogError> {
        let read = async {
            if !has_role(&self.db, organization_id, role_id).await? {
                return Ok(None);
            }
            find_holder(&self.db, role_id, id).await
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// Gives a member a role; from administrator.
    ///
    /// # Errors
    ///
    /// The organization has no such role, or has given all that it may, the person is no member or has it already,
    /// or the actor may not.
    pub async fn add_role_member(
        &self,
        actor: &Actor,
        organization_id: Uuid,
        role_id: Uuid,
        user_uuid: Uuid,
    ) -> Result<RoleMember, ChangeError> {
        let transaction = self.begin().await?;
        let added = async {
            let within = &transaction;
            let role = role_to_change(within, actor, organization_id, role_id).await?;
            let member = find_member(within, organization_id, user_uuid).await?;
            let member = member.ok_or_else(no_member)?;
            self.add_holder(within, actor, &role, member).await
        };
        let added = added.await;
        self.finish(transaction, added).await
    }

    async fn add_holder(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        role: &roles::Model,
        member: Member,
    ) -> Result<RoleMember, Abort> {
        let had = holders::Entity::find()
            .filter(holders::Column::RoleId.eq(role.id))
            .filter(holders::Column::MembershipId.eq(member.membership.id))
            .count(within);
        if had.await? > 0 {
            let detail = "This member has the role already.";
            return Err(ChangeError::invalid(None, "invalid_input", detail).into());
        }
        let roles_of_all = roles::Entity::find()
            .select_only()
            .column(roles::Column::Id)
            .filter(roles::Column::OrganizationId.eq(role.organization_id))
            .into_query();
        let given = holders::Entity::find()
            .filter(holders::Column::RoleId.in_subquery(roles_of_all))
            .count(within)
            .await?;
        must_have_fewer(
            "An organization",
            ROLE_MEMBERSHIPS_MAX,
            "role memberships",
            given,
        )?;
        let now = self.now();
        let row = holders::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            role_id: ActiveValue::Set(role.id),
            membership_id: ActiveValue::Set(member.membership.id),
            joined_at: ActiveValue::Set(now),
            updated_at: ActiveValue::Set(now),
        };
        let record = holders::Entity::insert(row).exec_with_returning(within);
        let record = record.await?;
        let deed = role_deed(Activity::Updated, role);
        let deed = deed.field("members", (), &member.user.email);
        self.record(within, actor, deed).await?;
        Ok(RoleMember { record, member })
    }

    /// Takes a role from a member; from administrator.
    ///
    /// # Errors
    ///
    /// The organization has no such role, the role nobody of this id, or the actor may not.
    pub async fn remove_role_member(
        &self,
        actor: &Actor,
        organization_id: Uuid,
        role_id: Uuid,
        id: Uuid,
    ) -> Result<(), ChangeError> {
        let transaction = self.begin().await?;
        let removed = async {
            let within = &transaction;
            let role = role_to_end(within, actor, organization_id, role_id).await?;
            let holder = find_holder(within, role_id, id).await?;
            let holder = holder.ok_or_else(|| ChangeError::not_found("role membership", &id))?;
            holders::Entity::delete_by_id(id).exec(within).await?;
            let deed = role_deed(Activity::Updated, &role);
            let deed = deed.field("members", &holder.member.user.email, ());
            self.record(within, actor, deed).await?;
            Ok(())
        };
        let removed = removed.await;
        self.finish(transaction, removed).await
    }
}

/// A role of an organization that is locked from here on and may use roles; the actor may change it.
pub(super) async fn role_to_change(
    within: &DatabaseTransaction,
    actor: &Actor,
    organization_id: Uuid,
    id: Uuid,
) -> Result<roles::Model, Abort> {
    let organization = lock_organization(within, organization_id).await?;
    must_act_as(within, actor, organization_id, Level::Administrator).await?;
    organization.must_have(ROLE_BASED_ACCESS)?;
    must_find(within, organization_id, id).await
}

/// A role that the actor may delete, or take from somebody, which takes no feature; its organization is locked
/// from here on.
pub(super) async fn role_to_end(
    within: &DatabaseTransaction,
    actor: &Actor,
    organization_id: Uuid,
    id: Uuid,
) -> Result<roles::Model, Abort> {
    lock_organization(within, organization_id).await?;
    must_act_as(within, actor, organization_id, Level::Administrator).await?;
    must_find(within, organization_id, id).await
}

/// The first of those who have some roles, in one statement.
pub(super) async fn of_roles<C: ConnectionTrait>(
    db: &C,
    role_ids: &[Uuid],
) -> Result<Vec<RoleMember>, DbErr> {
    let Some(first) = first::of_roles(role_ids) else {
        return Ok(Vec::new());
    };
    let query = holders::Entity::find().filter(holders::Column::Id.in_subquery(first));
    with_members(db, in_order(query)).await
}

fn in_order(query: Select<holders::Entity>) -> Select<holders::Entity> {
    query
        // The index has it so.
        .order_by_asc(holders::Column::RoleId)
        .order_by_asc(holders::Column::JoinedAt)
        .order_by_asc(holders::Column::Id)
}

async fn with_members<C: ConnectionTrait>(
    db: &C,
    query: Select<holders::Entity>,
) -> Result<Vec<RoleMember>, DbErr> {
    let query = query.find_also_related(memberships::Entity);
    let found = query.and_also_related(users::Entity).all(db).await?;
    let whole = found.into_iter().filter_map(|(record, membership, user)| {
        let (membership, user) = (membership?, user?);
        let member = Member { membership, user };
        Some(RoleMember { record, member })
    });
    Ok(whole.collect())
}

async fn find_holder<C: ConnectionTrait>(
    db: &C,
    role_id: Uuid,
    id: Uuid,
) -> Result<Option<RoleMember>, DbErr> {
    let query = holders::Entity::find_by_id(id).filter(holders::Column::RoleId.eq(role_id));
    Ok(with_members(db, query).await?.pop())
}

async fn has_role<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    id: Uuid,
) -> Result<bool, DbErr> {
    let query = super::of_organization(organization_id).filter(roles::Column::Id.eq(id));
    Ok(query.count(db).await? > 0)
}

/// The same for who exists elsewhere and who does not, so that nobody can be looked for.
fn no_member() -> ChangeError {
    let detail = "Name a member of this organization.";
    ChangeError::invalid(None, "invalid_input", detail)
}
