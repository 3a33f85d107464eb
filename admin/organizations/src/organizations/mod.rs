//! Organizations: creating and listing them.
//!
//! | Module | Holds |
//! |---|---|
//! | `input` | what is sent to create and to change an organization |
//! | `view` | organizations as their members see them |
//! | `change` | settings, features, deletion |
//! | `slug` | short names for URLs |

mod change;
mod input;
mod slug;
mod view;

pub use change::SwitchedFeatures;
pub use input::{NewOrganization, OrganizationChange};
pub use view::{Access, MemberOrganization};

use crate::projects::{CheckedProject, NewProject, insert_project, project_made};
use millrace_catalog::cleanup::mark_used;
use millrace_catalog::entities::{
    organization_memberships as memberships, organizations, projects,
};
use millrace_catalog::limits::{OWNED_ORGANIZATIONS_MAX, must_have_fewer};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{
    Activity, ActivityScope, Actor, AuditChange, Catalog, CatalogError, ChangeError, Level, UtcTime,
};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder,
};
use slug::free_slug;

const PROJECT_NAME: &str = "Default project";

/// Refuses a user who owns the most organizations. Creators of organizations queue up, so the count
/// holds.
async fn must_own_fewer(within: &DatabaseTransaction, user_id: i64) -> Result<(), Abort> {
    let own = memberships::Column::UserId
        .eq(user_id)
        .and(memberships::Column::Level.eq(Level::Owner));
    let had = memberships::Entity::find()
        .filter(own)
        .count(within)
        .await?;
    Ok(must_have_fewer(
        "A user",
        OWNED_ORGANIZATIONS_MAX,
        "organizations",
        had,
    )?)
}

/// Organizations, and who has access to them.
#[derive(Clone, Copy, Debug)]
pub struct Organizations<'a>(&'a Catalog);

impl<'a> Organizations<'a> {
    /// Returns a handle to the organizations in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl Organizations<'_> {
    /// Creates an organization with a project "Default project", owned by `owner_user_id` if given.
    ///
    /// # Errors
    ///
    /// The name is empty or too long.
    pub async fn create(
        self,
        actor: &Actor,
        new: impl Into<NewOrganization>,
        owner_user_id: Option<i64>,
    ) -> Result<organizations::Model, ChangeError> {
        let new = new.into().checked()?;
        let project = NewProject::named(PROJECT_NAME).checked()?;
        let transaction = self.0.begin().await?;
        let made = self
            .insert(&transaction, actor, new, project, owner_user_id)
            .await;
        self.0.finish(transaction, made).await
    }

    async fn insert(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        new: NewOrganization,
        project: CheckedProject,
        owner_user_id: Option<i64>,
    ) -> Result<organizations::Model, Abort> {
        // First, because it makes creators of organizations queue up: a slug that is free when it
        // is looked up stays free.
        self.0.keys_changed(within).await?;
        let now = self.0.now();
        let organization = insert_organization(within, new, now).await?;
        if let Some(user_id) = owner_user_id {
            must_own_fewer(within, user_id).await?;
            insert_membership(within, organization.id, user_id, Level::Owner, now).await?;
            mark_used(within, user_id).await?;
        }
        let project = insert_project(within, organization.id, project, now).await?;
        self.record_creation(within, actor, &organization, &project)
            .await?;
        Ok(organization)
    }

    /// Reads an organization.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(self, id: Uuid) -> Result<Option<organizations::Model>, CatalogError> {
        let found = organizations::Entity::find_by_id(id)
            .one(self.0.reader())
            .await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Lists all organizations, oldest first; for the operator.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_all(self) -> Result<Vec<organizations::Model>, CatalogError> {
        organizations::Entity::find()
            .order_by_asc(organizations::Column::CreatedAt)
            .order_by_asc(organizations::Column::Id)
            .all(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))
    }

    /// Writes the audit entries of a new organization and its first project.
    pub(crate) async fn record_creation(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization: &organizations::Model,
        project: &projects::Model,
    ) -> Result<(), DbErr> {
        let made = organization_audit(Activity::Created, organization);
        let made = made.field("name", (), &organization.name);
        self.0.record(within, actor, made).await?;
        self.0.record(within, actor, project_made(project)).await
    }
}

fn organization_audit(activity: Activity, organization: &organizations::Model) -> AuditChange {
    let (id, name) = (organization.id, organization.name.as_str());
    AuditChange::new(activity, ActivityScope::Organization, id, &id, name)
}

pub(crate) async fn insert_organization<C: ConnectionTrait>(
    db: &C,
    new: NewOrganization,
    now: UtcTime,
) -> Result<organizations::Model, DbErr> {
    let id = Uuid::now_v7();
    let is_mailed = new.is_member_join_email_enabled.sent();
    let row = organizations::ActiveModel {
        id: ActiveValue::Set(id),
        slug: ActiveValue::Set(free_slug(db, &new.name).await?),
        name: ActiveValue::Set(new.name),
        created_at: ActiveValue::Set(now),
        updated_at: ActiveValue::Set(now),
        is_member_join_email_enabled: ActiveValue::Set(is_mailed.unwrap_or(true)),
        enforce_2fa: ActiveValue::Set(new.enforce_2fa),
        members_can_write_pipelines: ActiveValue::Set(true),
        plugins_access_level: ActiveValue::Set(9),
        customer_id: ActiveValue::Set(None),
        disabled_features: ActiveValue::Set(organizations::FeatureKeys::default()),
        member_count: ActiveValue::Set(0),
    };
    organizations::Entity::insert(row)
        .exec_with_returning(db)
        .await
}

/// Adds a member, and increments the count.
pub(crate) async fn insert_membership<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    user_id: i64,
    level: Level,
    now: UtcTime,
) -> Result<memberships::Model, DbErr> {
    let row = memberships::ActiveModel {
        id: ActiveValue::Set(Uuid::now_v7()),
        organization_id: ActiveValue::Set(organization_id),
        user_id: ActiveValue::Set(user_id),
        level: ActiveValue::Set(level),
        joined_at: ActiveValue::Set(now),
        updated_at: ActiveValue::Set(now),
    };
    let inserted = memberships::Entity::insert(row).exec_with_returning(db);
    let membership = inserted.await?;
    count_member(db, organization_id, 1).await?;
    Ok(membership)
}

/// Deletes a membership, and decrements the count.
pub(crate) async fn delete_membership<C: ConnectionTrait>(
    db: &C,
    membership: &memberships::Model,
) -> Result<(), DbErr> {
    // Role memberships are deleted with it, by ON DELETE CASCADE.
    let deleted = memberships::Entity::delete_by_id(membership.id);
    deleted.exec(db).await?;
    count_member(db, membership.organization_id, -1).await
}

async fn count_member<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    change: i64,
) -> Result<(), DbErr> {
    let count = organizations::Column::MemberCount;
    organizations::Entity::update_many()
        .col_expr(count, Expr::col(count).add(change))
        .filter(organizations::Column::Id.eq(organization_id))
        .exec(db)
        .await
        .map(drop)
}
