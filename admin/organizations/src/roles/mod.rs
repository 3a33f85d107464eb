//! Roles, named groups of members: reading them.
//!
//! | Module | Holds |
//! |---|---|
//! | `handle` | [`Roles`], which has the operations |
//! | `write` | creating, changing and deleting roles |
//! | `members` | members of roles |
//! | `lookup` | rows of roles, and their entries of the activity log |
//! | `first_members` | first members, which are returned with a role; no I/O |
//!
//! A role grants nothing by itself: members keep their levels. Front ends interpret it.

mod first_members;
mod handle;
mod lookup;
mod members;
mod write;

pub use handle::Roles;
pub use members::RoleMember;
pub use write::{NewRole, RoleChange};

use lookup::of_organization;
use millrace_catalog::entities::roles::FlagsAccess;
use millrace_catalog::entities::{roles, users};
use millrace_catalog::{CatalogError, Page, PageRequest};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, JoinType, PaginatorTrait,
    QueryFilter, QueryOrder, QueryResult, QuerySelect, RelationDef, Select,
};
use std::collections::HashMap;

/// Name of the column that counts members.
const HELD: &str = "held";

/// Role with its creator and first members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleView {
    /// Row of the role.
    pub role: roles::Model,
    /// Creator; `None`: the operator, or a deleted user.
    pub created_by: Option<users::Model>,
    /// First 1 000 members, earliest first. [`Roles::members`] has all of them.
    pub members: Vec<RoleMember>,
}

/// Filter of roles; the default matches all.
#[derive(Clone, Debug, Default)]
pub struct RoleFilter {
    /// Role with this id.
    pub id: Option<Uuid>,
    /// Role with exactly this name.
    pub name: Option<String>,
    /// Roles with this access.
    pub feature_flags_access_level: Option<FlagsAccess>,
}

impl RoleFilter {
    fn applied(&self, mut query: Select<roles::Entity>) -> Select<roles::Entity> {
        if let Some(id) = self.id {
            query = query.filter(roles::Column::Id.eq(id));
        }
        if let Some(name) = &self.name {
            query = query.filter(roles::Column::Name.eq(name.as_str()));
        }
        if let Some(access) = self.feature_flags_access_level {
            query = query.filter(roles::Column::FeatureFlagsAccessLevel.eq(access));
        }
        query
    }
}

impl Roles<'_> {
    /// Page of an organization's roles, oldest first: at least one, and fewer than the limit if
    /// they would have more than 2 000 members in all. The next page then begins after the last one
    /// returned.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        organization_id: Uuid,
        filter: &RoleFilter,
        page: PageRequest,
    ) -> Result<Page<RoleView>, CatalogError> {
        let query = filter.applied(of_organization(organization_id));
        let read = async {
            let count = query.clone().count(self.0.reader()).await?;
            let part = query
                .order_by_asc(roles::Column::CreatedAt)
                .order_by_asc(roles::Column::Id)
                .offset(page.offset)
                .limit(page.limit);
            let rows = views(self.0.reader(), part).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Reads a role; `None` if the organization has none of this id.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<Option<RoleView>, CatalogError> {
        let found = find_view(self.0.reader(), organization_id, id).await;
        found.map_err(|error| self.0.error(&error))
    }
}

async fn find_view<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    id: Uuid,
) -> Result<Option<RoleView>, DbErr> {
    let query = of_organization(organization_id).filter(roles::Column::Id.eq(id));
    Ok(views(db, query).await?.pop())
}

/// Role with the number of members that are returned with it.
struct CountedRole {
    role: roles::Model,
    members: u64,
}

impl FromQueryResult for CountedRole {
    fn from_query_result(row: &QueryResult, prefix: &str) -> Result<Self, DbErr> {
        let members: i64 = row.try_get(prefix, HELD)?;
        Ok(Self {
            role: roles::Model::from_query_result(row, prefix)?,
            members: members.unsigned_abs(),
        })
    }
}

/// Reads roles with their creators and first members, in two statements however many they are.
/// Later roles of the query are dropped where they would have too many members.
async fn views<C: ConnectionTrait>(
    db: &C,
    query: Select<roles::Entity>,
) -> Result<Vec<RoleView>, DbErr> {
    let maker: RelationDef = roles::Entity::belongs_to(users::Entity)
        .from(roles::Column::CreatedById)
        .to(users::Column::Id)
        .into();
    let query = query.join(JoinType::LeftJoin, maker);
    let query = query.column_as(Expr::cust(first_members::count()), HELD);
    let query = query.select_also(users::Entity);
    let query = query.into_model::<CountedRole, users::Model>();
    let mut found = query.all(db).await?;
    found.truncate(first_members::fitting(
        found.iter().map(|(role, _)| role.members),
    ));
    let with_members = found.iter().filter(|(role, _)| role.members > 0);
    let ids: Vec<_> = with_members.map(|(role, _)| role.role.id).collect();
    let mut members: HashMap<Uuid, Vec<RoleMember>> = HashMap::new();
    for member in members::of_roles(db, &ids).await? {
        members
            .entry(member.record.role_id)
            .or_default()
            .push(member);
    }
    let views = found.into_iter();
    let views = views.map(|(CountedRole { role, .. }, created_by)| RoleView {
        members: members.remove(&role.id).unwrap_or_default(),
        role,
        created_by,
    });
    Ok(views.collect())
}
