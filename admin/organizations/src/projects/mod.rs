//! Projects: creating and reading them.
//!
//! | Module | Holds |
//! |---|---|
//! | `handles` | [`Projects`], [`ProjectKeyChanges`] |
//! | `input` | what is sent to create and to change a project |
//! | `keys` | project keys, with which events are posted |
//! | `change` | settings, deletion |
//! | `clickhouse_users` | users of projects in ClickHouse |
//! | `property_columns` | properties that become columns of `events` |
//! | `rejected_event_resends` | rejected events that are being sent again |
//! | `locks` | projects that are about to be changed |

mod change;
mod clickhouse_users;
mod handles;
mod input;
mod keys;
mod locks;
mod property_columns;
mod rejected_event_resends;

pub use clickhouse_users::{ClickHouseUsers, NewClickHouseLogin};
pub use handles::{ProjectKeyChanges, Projects};
pub(crate) use input::CheckedProject;
pub use input::{NewProject, ProjectChange};
pub use property_columns::{
    NewPropertyColumn, ProjectColumns, PropertyColumns, PropertyColumnsChange,
};
pub use rejected_event_resends::{BegunResend, NewResend, RejectedEventResends};

use keys::{is_imported, key_taken};
use locks::project_audit;
use millrace_catalog::entities::projects;
use millrace_catalog::features::ORGANIZATIONS_PROJECTS;
use millrace_catalog::limits::{PROJECTS_MAX, must_have_fewer};
use millrace_catalog::transaction::{Abort, lock_organization, must_act_as};
use millrace_catalog::{
    Activity, Actor, AuditChange, CatalogError, ChangeError, Level, Page, PageRequest, UtcTime,
};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};

impl Projects<'_> {
    /// Adds a project to an organization; requires administrator.
    ///
    /// # Errors
    ///
    /// No such organization, a bad name or key, another project has the key, too many projects,
    /// [`ChangeError::FeatureMissing`] for a second one, or the actor may not.
    pub async fn create(
        self,
        actor: &Actor,
        organization_id: Uuid,
        new: NewProject,
    ) -> Result<projects::Model, ChangeError> {
        let new = new.checked()?;
        let transaction = self.0.begin().await?;
        let made = self.insert(&transaction, actor, organization_id, new).await;
        self.0.finish(transaction, made).await
    }

    async fn insert(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization_id: Uuid,
        new: CheckedProject,
    ) -> Result<projects::Model, Abort> {
        let organization = lock_organization(within, organization_id).await?;
        must_act_as(within, actor, organization_id, Level::Administrator).await?;
        let had = projects::Entity::find()
            .filter(projects::Column::OrganizationId.eq(organization_id))
            .count(within)
            .await?;
        if had > 0 {
            organization.must_have(ORGANIZATIONS_PROJECTS)?;
        }
        must_have_fewer("An organization", PROJECTS_MAX, "projects", had)?;
        let made = insert_project(within, organization_id, new, self.0.now()).await;
        let project = made.map_err(key_taken)?;
        self.0.record(within, actor, project_made(&project)).await?;
        self.0.keys_changed(within).await?;
        Ok(project)
    }

    /// Lists all projects, or those of one organization, lowest id first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_all(
        self,
        organization_id: Option<Uuid>,
    ) -> Result<Vec<projects::Model>, CatalogError> {
        let mut query = projects::Entity::find();
        if let Some(id) = organization_id {
            query = query.filter(projects::Column::OrganizationId.eq(id));
        }
        let found = query
            .order_by_asc(projects::Column::Id)
            .all(self.0.reader())
            .await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Page of an organization's projects, lowest id first; with `search`, only those whose names
    /// contain it, in any case.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        organization_id: Uuid,
        search: Option<&str>,
        page: PageRequest,
    ) -> Result<Page<projects::Model>, CatalogError> {
        if let Some(search) = search {
            // There are at most PROJECTS_MAX of them, and each database has its own idea of the
            // case of letters beyond ASCII.
            let mut found = self.list_all(Some(organization_id)).await?;
            let search = search.to_lowercase();
            found.retain(|project| project.name.to_lowercase().contains(&search));
            return Ok(Page::of(found, page));
        }
        let in_organization = projects::Column::OrganizationId.eq(organization_id);
        let query = projects::Entity::find().filter(in_organization);
        let read = async {
            let count = query.clone().count(self.0.reader()).await?;
            let part = query
                .order_by_asc(projects::Column::Id)
                .offset(page.offset)
                .limit(page.limit);
            let rows = part.all(self.0.reader()).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Reads a project of an organization; `None` if there is none, or it is another's.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get_of(
        self,
        organization_id: Uuid,
        project_id: ProjectId,
    ) -> Result<Option<projects::Model>, CatalogError> {
        let found = self.get(project_id).await?;
        Ok(found.filter(|project| project.organization_id == organization_id))
    }

    /// Reads a project.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(self, project_id: ProjectId) -> Result<Option<projects::Model>, CatalogError> {
        let found = projects::Entity::find_by_id(project_id.0)
            .one(self.0.reader())
            .await;
        found.map_err(|error| self.0.error(&error))
    }
}

pub(crate) fn project_made(project: &projects::Model) -> AuditChange {
    project_audit(Activity::Created, project).field("name", (), &project.name)
}

pub(crate) async fn insert_project<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    new: CheckedProject,
    now: UtcTime,
) -> Result<projects::Model, DbErr> {
    let row = projects::ActiveModel {
        id: ActiveValue::NotSet,
        uuid: ActiveValue::Set(Uuid::now_v7()),
        organization_id: ActiveValue::Set(organization_id),
        name: ActiveValue::Set(new.name),
        api_token_imported: ActiveValue::Set(is_imported(&new.key)),
        api_token: ActiveValue::Set(Some(new.key)),
        anonymize_ips: ActiveValue::Set(new.anonymize_ips),
        ingested_event: ActiveValue::Set(false),
        timezone: ActiveValue::Set(new.timezone),
        created_at: ActiveValue::Set(now),
        updated_at: ActiveValue::Set(now),
    };
    projects::Entity::insert(row).exec_with_returning(db).await
}
