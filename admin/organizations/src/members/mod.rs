//! Members of organizations: lists and addresses.
//!
//! `change` holds changes of levels, and removal.

mod change;

pub(crate) use change::member_audit;

use millrace_catalog::email::Email;
use millrace_catalog::entities::{organization_memberships as memberships, organizations, users};
use millrace_catalog::page::part;
use millrace_catalog::{Catalog, CatalogError, Level, Page, PageRequest};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, JoinType, QueryFilter, QueryOrder,
    QuerySelect, RelationDef, Select,
};
use std::collections::HashMap;

/// Addresses of a page.
const ADDRESSES_PAGE_LEN: u64 = 500;

/// Membership with its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Level, and time of joining.
    pub membership: memberships::Model,
    /// User of the membership.
    pub user: users::Model,
}

/// Members of organizations.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a>(&'a Catalog);

impl<'a> Members<'a> {
    /// Returns a handle to the members in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl Members<'_> {
    /// Page of an organization's members, earliest first; with `email`, only the one with this
    /// address.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        organization_id: Uuid,
        email: Option<&str>,
        page: PageRequest,
    ) -> Result<Page<Member>, CatalogError> {
        let read = async {
            if let Some(email) = email {
                let email = Email::key_of(email);
                let query = joined(organization_id).filter(users::Column::Email.eq(email));
                let found = query.all(self.0.reader()).await?;
                return Ok(Page::of(joined_members(found), page));
            }
            let count = member_count(self.0.reader(), organization_id).await?;
            let in_order = memberships::Entity::find()
                .filter(memberships::Column::OrganizationId.eq(organization_id))
                .order_by_asc(memberships::Column::JoinedAt)
                .order_by_asc(memberships::Column::Id);
            let part = part(in_order, memberships::Column::Id, page);
            let mut part = part.all(self.0.reader()).await?;
            part.sort_by_key(|membership| (membership.joined_at, membership.id));
            // No join: that would look up the users of all rows that the offset skips.
            let rows = with_users(self.0.reader(), part).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Reads a member by the user's UUID; `None` if the organization has no such member.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        organization_id: Uuid,
        user_uuid: Uuid,
    ) -> Result<Option<Member>, CatalogError> {
        let found = find_member(self.0.reader(), organization_id, user_uuid).await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Page of the addresses of an organization's administrators and owners, with their users'
    /// numbers and in that order: those that follow a number.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn administrator_addresses(
        self,
        organization_id: Uuid,
        after: i64,
    ) -> Result<Vec<(i64, String)>, CatalogError> {
        let page = addresses(organization_id, after)
            .filter(memberships::Column::Level.is_in([Level::Administrator, Level::Owner]))
            .into_tuple()
            .all(self.0.reader());
        page.await.map_err(|error| self.0.error(&error))
    }

    /// Page of the addresses of all members of an organization but one, with their users' numbers
    /// and in that order: those that follow a number.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn addresses_beside(
        self,
        organization_id: Uuid,
        user_id: i64,
        after: i64,
    ) -> Result<Vec<(i64, String)>, CatalogError> {
        let page = addresses(organization_id, after)
            .filter(memberships::Column::UserId.ne(user_id))
            .into_tuple()
            .all(self.0.reader());
        page.await.map_err(|error| self.0.error(&error))
    }
}

/// Query for a page of users' numbers and addresses.
fn addresses(organization_id: Uuid, after: i64) -> Select<memberships::Entity> {
    memberships::Entity::find()
        .select_only()
        .column(memberships::Column::UserId)
        .column(users::Column::Email)
        .join(JoinType::InnerJoin, user_of_membership())
        .filter(memberships::Column::OrganizationId.eq(organization_id))
        .filter(memberships::Column::UserId.gt(after))
        .order_by_asc(memberships::Column::UserId)
        .limit(ADDRESSES_PAGE_LEN)
}

async fn member_count<C: ConnectionTrait>(db: &C, organization_id: Uuid) -> Result<u64, DbErr> {
    let count: Option<i64> = organizations::Entity::find_by_id(organization_id)
        .select_only()
        .column(organizations::Column::MemberCount)
        .into_tuple()
        .one(db)
        .await?;
    Ok(count.map_or(0, i64::unsigned_abs))
}

pub(crate) async fn find_member<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    user_uuid: Uuid,
) -> Result<Option<Member>, DbErr> {
    let query = joined(organization_id).filter(users::Column::Uuid.eq(user_uuid));
    Ok(joined_members(query.all(db).await?).pop())
}

/// Query for the memberships of an organization, with their users.
pub(crate) fn joined(
    organization_id: Uuid,
) -> sea_orm::SelectTwo<memberships::Entity, users::Entity> {
    memberships::Entity::find()
        .join(JoinType::InnerJoin, user_of_membership())
        .filter(memberships::Column::OrganizationId.eq(organization_id))
        .select_also(users::Entity)
}

fn user_of_membership() -> RelationDef {
    memberships::Entity::belongs_to(users::Entity)
        .from(memberships::Column::UserId)
        .to(users::Column::Id)
        .into()
}

/// Members of a join; a membership without its user is left out.
fn joined_members(rows: Vec<(memberships::Model, Option<users::Model>)>) -> Vec<Member> {
    let members = rows.into_iter().filter_map(|(membership, user)| {
        let user = user?;
        Some(Member { membership, user })
    });
    members.collect()
}

async fn with_users<C: ConnectionTrait>(
    db: &C,
    part: Vec<memberships::Model>,
) -> Result<Vec<Member>, DbErr> {
    let mut users = users_by_id(db, part.iter().map(|row| row.user_id)).await?;
    let members = part.into_iter().filter_map(|membership| {
        let user = users.remove(&membership.user_id)?;
        Some(Member { membership, user })
    });
    Ok(members.collect())
}

/// Reads users by their numbers, in one query.
pub(crate) async fn users_by_id<C: ConnectionTrait>(
    db: &C,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, users::Model>, DbErr> {
    let query: Select<users::Entity> = users::Entity::find().filter(users::Column::Id.is_in(ids));
    let found = query.all(db).await?;
    Ok(found.into_iter().map(|user| (user.id, user)).collect())
}
