//! Roles: reading them.
//!
//! | Module | Holds |
//! |---|---|
//! | `write` | making, changing and deleting them |
//! | `members` | who has them |
//! | `first` | whom of those a role is answered with; no I/O |
//!
//! A role says nothing of levels: who has it may do as much as before. Front ends read it.

mod first;
mod members;
mod write;

pub use members::RoleMember;
pub use write::{NewRole, RoleChange};

use crate::activity::{Activity, ActivityScope, Deed};
use crate::catalog::Catalog;
use crate::entities::roles::FlagsAccess;
use crate::entities::{roles, users};
use crate::error::{CatalogError, ChangeError};
use crate::page::{Page, PageRequest};
use crate::transaction::Abort;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, JoinType, PaginatorTrait,
    QueryFilter, QueryOrder, QueryResult, QuerySelect, RelationDef, Select,
};
use std::collections::HashMap;

/// Name of the column that counts members.
const HELD: &str = "held";

/// A role, who made it and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRole {
    /// Itself.
    pub role: roles::Model,
    /// `None`: the operator, or gone.
    pub created_by: Option<users::Model>,
    /// Who got it first first: the first 1 000. [`Catalog::role_members_of`] has everybody.
    pub members: Vec<RoleMember>,
}

/// Which roles are wanted; none of it: all.
#[derive(Clone, Debug, Default)]
pub struct RoleFilter {
    /// The one with this id.
    pub id: Option<Uuid>,
    /// The one with exactly this name.
    pub name: Option<String>,
    /// Those with this access.
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

impl Catalog {
    /// A part of an organization's roles, oldest first: at least one, and fewer than the page has where
    /// they would have more than 2 000 members in all. What is missing is read from there on.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn roles_of(
        &self,
        organization_id: Uuid,
        filter: &RoleFilter,
        page: PageRequest,
    ) -> Result<Page<SeenRole>, CatalogError> {
        let query = filter.applied(of_organization(organization_id));
        let read = async {
            let count = query.clone().count(&self.db).await?;
            let part = query
                .order_by_asc(roles::Column::CreatedAt)
                .order_by_asc(roles::Column::Id)
                .offset(page.offset)
                .limit(page.limit);
            let rows = seen(&self.db, part).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// One of them; `None` if the organization has none of this id.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn role(
        &self,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<Option<SeenRole>, CatalogError> {
        let found = find_seen(&self.db, organization_id, id).await;
        found.map_err(|error| self.error(&error))
    }
}

fn of_organization(organization_id: Uuid) -> Select<roles::Entity> {
    roles::Entity::find().filter(roles::Column::OrganizationId.eq(organization_id))
}

async fn find_seen<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    id: Uuid,
) -> Result<Option<SeenRole>, DbErr> {
    let query = of_organization(organization_id).filter(roles::Column::Id.eq(id));
    Ok(seen(db, query).await?.pop())
}

async fn must_find<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    id: Uuid,
) -> Result<roles::Model, Abort> {
    let query = of_organization(organization_id).filter(roles::Column::Id.eq(id));
    let found = query.one(db).await?;
    found.ok_or_else(|| ChangeError::not_found("role", &id).into())
}

/// A role, and how many members it is answered with.
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

/// Roles with who made and who has them, in two statements however many they are: the first of what was
/// asked for.
async fn seen<C: ConnectionTrait>(
    db: &C,
    query: Select<roles::Entity>,
) -> Result<Vec<SeenRole>, DbErr> {
    let maker: RelationDef = roles::Entity::belongs_to(users::Entity)
        .from(roles::Column::CreatedById)
        .to(users::Column::Id)
        .into();
    let query = query.join(JoinType::LeftJoin, maker);
    let query = query.column_as(Expr::cust(first::count()), HELD);
    let query = query.select_also(users::Entity);
    let query = query.into_model::<CountedRole, users::Model>();
    let mut found = query.all(db).await?;
    found.truncate(first::fitting(found.iter().map(|(role, _)| role.members)));
    let with_members = found.iter().filter(|(role, _)| role.members > 0);
    let ids: Vec<_> = with_members.map(|(role, _)| role.role.id).collect();
    let mut members: HashMap<Uuid, Vec<RoleMember>> = HashMap::new();
    for member in members::of_roles(db, &ids).await? {
        members
            .entry(member.record.role_id)
            .or_default()
            .push(member);
    }
    let seen = found.into_iter();
    let seen = seen.map(|(CountedRole { role, .. }, created_by)| SeenRole {
        members: members.remove(&role.id).unwrap_or_default(),
        role,
        created_by,
    });
    Ok(seen.collect())
}

fn role_deed(activity: Activity, role: &roles::Model) -> Deed {
    let (scope, id) = (ActivityScope::Role, role.organization_id);
    Deed::new(activity, scope, id, &role.id, &role.name)
}
