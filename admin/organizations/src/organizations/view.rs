//! Organizations as their members see them.

use super::Organizations;
use crate::caller::Caller;
use millrace_catalog::entities::{
    organization_memberships as memberships, organizations, projects,
};
use millrace_catalog::{CatalogError, Level, Page, PageRequest};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Condition;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, JoinType, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, RelationDef, Select,
};
use std::collections::HashMap;

/// Organization as one of its members sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberOrganization {
    /// Row of the organization.
    pub organization: organizations::Model,
    /// Caller's level.
    pub membership_level: Level,
    /// Projects of the organization, lowest id first.
    pub projects: Vec<projects::Model>,
}

/// Access of a caller to an organization, against which requests are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Row of the organization.
    pub organization: organizations::Model,
    /// Caller's level; `None`: no member, but the operator.
    pub level: Option<Level>,
}

/// Row of the query.
#[derive(FromQueryResult)]
struct Row {
    #[sea_orm(nested)]
    organization: organizations::Model,
    membership_level: Level,
}

impl Organizations<'_> {
    /// Page of the organizations that a caller sees: those of the key's owner, narrowed to the
    /// key's.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_of(
        self,
        caller: &Caller,
        page: PageRequest,
    ) -> Result<Page<MemberOrganization>, CatalogError> {
        let read = async {
            let count = memberships::Entity::find()
                .filter(covered(caller))
                .count(self.0.reader())
                .await?;
            let found = visible_to(caller)
                .order_by_asc(organizations::Column::CreatedAt)
                .order_by_asc(organizations::Column::Id)
                .offset(page.offset)
                .limit(page.limit)
                .into_model::<Row>()
                .all(self.0.reader())
                .await?;
            let rows = with_projects(self.0.reader(), found).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Reads an organization that a caller sees; `None` if there is none, or it is another's.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get_of(
        self,
        caller: &Caller,
        id: Uuid,
    ) -> Result<Option<MemberOrganization>, CatalogError> {
        let read = async {
            let found = visible_to(caller)
                .filter(organizations::Column::Id.eq(id))
                .into_model::<Row>()
                .all(self.0.reader())
                .await?;
            Ok(with_projects(self.0.reader(), found).await?.pop())
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Reads a member's access to an organization, by one look-up for every request that names one.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn access(self, caller: &Caller, id: Uuid) -> Result<Option<Access>, CatalogError> {
        let found = organizations::Entity::find_by_id(id)
            .join(JoinType::InnerJoin, membership_of_organization())
            .select_also(memberships::Entity)
            .filter(covered(caller))
            .one(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        Ok(found.and_then(|(organization, membership)| {
            let level = Some(membership?.level);
            Some(Access {
                organization,
                level,
            })
        }))
    }

    /// Reads the operator's access to an organization: member or not, if the key covers it. That
    /// the caller is the operator must have been checked.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn access_of_operator(
        self,
        caller: &Caller,
        id: Uuid,
    ) -> Result<Option<Access>, CatalogError> {
        let only = caller.scoped_organizations.as_ref();
        if only.is_some_and(|only| !only.0.contains(&id)) {
            return Ok(None);
        }
        let found = organizations::Entity::find_by_id(id)
            .one(self.0.reader())
            .await;
        let found = found.map_err(|error| self.0.error(&error))?;
        Ok(found.map(|organization| Access {
            organization,
            level: None,
        }))
    }

    /// Id of `@current`: the organization of the oldest membership that the caller's key covers.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn current_of(self, caller: &Caller) -> Result<Option<Uuid>, CatalogError> {
        let oldest = memberships::Entity::find()
            .filter(covered(caller))
            .order_by_asc(memberships::Column::JoinedAt)
            .order_by_asc(memberships::Column::Id)
            .limit(1)
            .one(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        Ok(oldest.map(|oldest| oldest.organization_id))
    }
}

/// Condition for the caller's memberships that the key covers.
fn covered(caller: &Caller) -> Condition {
    let own = Condition::all().add(memberships::Column::UserId.eq(caller.user.id));
    match &caller.scoped_organizations {
        Some(only) => own.add(memberships::Column::OrganizationId.is_in(only.0.iter().copied())),
        None => own,
    }
}

fn membership_of_organization() -> RelationDef {
    organizations::Entity::belongs_to(memberships::Entity)
        .from(organizations::Column::Id)
        .to(memberships::Column::OrganizationId)
        .into()
}

/// Query for the organizations that the caller sees, each with the caller's level.
fn visible_to(caller: &Caller) -> Select<organizations::Entity> {
    organizations::Entity::find()
        .join(JoinType::InnerJoin, membership_of_organization())
        .filter(covered(caller))
        .column_as(memberships::Column::Level, "membership_level")
}

/// Adds projects to all rows, in one query.
async fn with_projects<C: ConnectionTrait>(
    db: &C,
    rows: Vec<Row>,
) -> Result<Vec<MemberOrganization>, DbErr> {
    let ids = rows.iter().map(|row| row.organization.id);
    let found = projects::Entity::find()
        .filter(projects::Column::OrganizationId.is_in(ids))
        .order_by_asc(projects::Column::Id)
        .all(db)
        .await?;
    let mut projects: HashMap<Uuid, Vec<projects::Model>> = HashMap::new();
    for project in found {
        let of = projects.entry(project.organization_id).or_default();
        of.push(project);
    }
    let views = rows.into_iter().map(|row| MemberOrganization {
        membership_level: row.membership_level,
        projects: projects.remove(&row.organization.id).unwrap_or_default(),
        organization: row.organization,
    });
    Ok(views.collect())
}
