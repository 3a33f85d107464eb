//! Members of roles.

use super::lookup::{must_find, of_organization, role_audit};
use super::{Roles, first_members};
use crate::members::{Member, find_member};
use millrace_catalog::entities::{
    organization_memberships as memberships, role_memberships as holders, roles, users,
};
use millrace_catalog::features::ROLE_BASED_ACCESS;
use millrace_catalog::limits::{ROLE_MEMBERSHIPS_MAX, must_have_fewer};
use millrace_catalog::transaction::{Abort, lock_organization, must_act_as};
use millrace_catalog::{Activity, Actor, CatalogError, ChangeError, Level, Page, PageRequest};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};

/// Member of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleMember {
    /// Row of the role membership.
    pub record: holders::Model,
    /// Member of the organization.
    pub member: Member,
}

impl Roles<'_> {
    /// Page of a role's members, earliest first; `None` if the organization has no such role.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn members(
        self,
        organization_id: Uuid,
        role_id: Uuid,
        page: PageRequest,
    ) -> Result<Option<Page<RoleMember>>, CatalogError> {
        let read = async {
            if !has_role(self.0.reader(), organization_id, role_id).await? {
                return Ok(None);
            }
            let query = holders::Entity::find().filter(holders::Column::RoleId.eq(role_id));
            let count = query.clone().count(self.0.reader()).await?;
            let part = in_order(query).offset(page.offset).limit(page.limit);
            let rows = with_members(self.0.reader(), part).await?;
            Ok(Some(Page { count, rows }))
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Reads a role membership; `None` if the organization has no such role, or the role no such
    /// membership.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn member(
        self,
        organization_id: Uuid,
        role_id: Uuid,
        id: Uuid,
    ) -> Result<Option<RoleMember>, CatalogError> {
        let read = async {
            if !has_role(self.0.reader(), organization_id, role_id).await? {
                return Ok(None);
            }
            find_holder(self.0.reader(), role_id, id).await
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Gives a member a role; requires administrator.
    ///
    /// # Errors
    ///
    /// The organization has no such role, or the most role memberships; the user is no member or
    /// has the role already; or the actor may not.
    pub async fn add_member(
        self,
        actor: &Actor,
        organization_id: Uuid,
        role_id: Uuid,
        user_uuid: Uuid,
    ) -> Result<RoleMember, ChangeError> {
        let transaction = self.0.begin().await?;
        let added = async {
            let within = &transaction;
            let role = role_to_change(within, actor, organization_id, role_id).await?;
            let member = find_member(within, organization_id, user_uuid).await?;
            let member = member.ok_or_else(no_member)?;
            self.add_holder(within, actor, &role, member).await
        };
        let added = added.await;
        self.0.finish(transaction, added).await
    }

    async fn add_holder(
        self,
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
        let now = self.0.now();
        let row = holders::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            role_id: ActiveValue::Set(role.id),
            membership_id: ActiveValue::Set(member.membership.id),
            joined_at: ActiveValue::Set(now),
            updated_at: ActiveValue::Set(now),
        };
        let record = holders::Entity::insert(row).exec_with_returning(within);
        let record = record.await?;
        let audit = role_audit(Activity::Updated, role);
        let audit = audit.field("members", (), &member.user.email);
        self.0.record(within, actor, audit).await?;
        Ok(RoleMember { record, member })
    }

    /// Takes a role from a member; requires administrator.
    ///
    /// # Errors
    ///
    /// The organization has no such role, the role no such membership, or the actor may not.
    pub async fn remove_member(
        self,
        actor: &Actor,
        organization_id: Uuid,
        role_id: Uuid,
        id: Uuid,
    ) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let removed = async {
            let within = &transaction;
            let role = role_to_end(within, actor, organization_id, role_id).await?;
            let holder = find_holder(within, role_id, id).await?;
            let holder = holder.ok_or_else(|| ChangeError::not_found("role membership", &id))?;
            holders::Entity::delete_by_id(id).exec(within).await?;
            let audit = role_audit(Activity::Updated, &role);
            let audit = audit.field("members", &holder.member.user.email, ());
            self.0.record(within, actor, audit).await?;
            Ok(())
        };
        let removed = removed.await;
        self.0.finish(transaction, removed).await
    }
}

/// Locks an organization and reads a role of it that the actor may change; needs the feature of
/// roles.
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

/// Locks an organization and reads a role of it that the actor may delete or take from a member,
/// which needs no feature.
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

/// Reads the first members of several roles, in one statement.
pub(super) async fn of_roles<C: ConnectionTrait>(
    db: &C,
    role_ids: &[Uuid],
) -> Result<Vec<RoleMember>, DbErr> {
    let Some(first) = first_members::of_roles(role_ids) else {
        return Ok(Vec::new());
    };
    let query = holders::Entity::find().filter(holders::Column::Id.in_subquery(first));
    with_members(db, in_order(query)).await
}

fn in_order(query: Select<holders::Entity>) -> Select<holders::Entity> {
    query
        // The index has this order.
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
    let query = of_organization(organization_id).filter(roles::Column::Id.eq(id));
    Ok(query.count(db).await? > 0)
}

/// Error for a user who is no member. It is the same whether the user exists, so that nobody can
/// probe for users.
fn no_member() -> ChangeError {
    let detail = "Name a member of this organization.";
    ChangeError::invalid(None, "invalid_input", detail)
}
