//! Project keys, with which events are posted: how the ingestion path reads them, and the mark of
//! projects that have events.

use crate::catalog::Catalog;
use crate::entities::projects;
use crate::error::CatalogError;
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

/// Project keys, as the ingestion path reads them.
#[derive(Clone, Copy, Debug)]
pub struct ProjectKeys<'a>(&'a Catalog);

impl<'a> ProjectKeys<'a> {
    /// Returns a handle to the project keys in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

/// Project of a key, as the ingestion path needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectKey {
    /// Id of the project, under which its events are stored.
    pub project_id: ProjectId,
    /// Organization of the project.
    pub organization_id: Uuid,
    /// True if clients' addresses are left out of its events.
    pub anonymize_ips: bool,
    /// True if the project is marked as having events; see [`ProjectKeys::note_first_event`].
    pub ingested_event: bool,
}

/// Key, and the project that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// Key, with which events are posted.
    pub key: String,
    /// Project of the key.
    pub project: ProjectKey,
}

/// Columns of a key that is listed.
type ListedColumns = (i64, Uuid, bool, bool, Option<String>);

impl ProjectKeys<'_> {
    /// Lists up to `keys_max` keys by the id of their project, of projects behind one.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_behind(
        self,
        project_id: ProjectId,
        keys_max: u64,
    ) -> Result<Vec<ListedKey>, CatalogError> {
        let rows: Vec<ListedColumns> = projects::Entity::find()
            .select_only()
            .column(projects::Column::Id)
            .column(projects::Column::OrganizationId)
            .column(projects::Column::AnonymizeIps)
            .column(projects::Column::IngestedEvent)
            .column(projects::Column::ApiToken)
            .filter(projects::Column::ApiToken.is_not_null())
            .filter(projects::Column::Id.gt(project_id.0))
            .order_by_asc(projects::Column::Id)
            .limit(keys_max)
            .into_tuple()
            .all(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        let listed = rows.into_iter().filter_map(
            |(id, organization_id, anonymize_ips, ingested_event, key)| {
                let project = ProjectKey {
                    project_id: ProjectId(id),
                    organization_id,
                    anonymize_ips,
                    ingested_event,
                };
                key.map(|key| ListedKey { key, project })
            },
        );
        Ok(listed.collect())
    }

    /// Finds the project of a key by one index look-up. The caller checks the key's format before;
    /// see [`ProjectKeyForm`](crate::key::ProjectKeyForm).
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn find(self, key: &str) -> Result<Option<ProjectKey>, CatalogError> {
        let row: Option<(i64, Uuid, bool, bool)> = projects::Entity::find()
            .select_only()
            .column(projects::Column::Id)
            .column(projects::Column::OrganizationId)
            .column(projects::Column::AnonymizeIps)
            .column(projects::Column::IngestedEvent)
            .filter(projects::Column::ApiToken.eq(key))
            .into_tuple()
            .one(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        Ok(row.map(
            |(id, organization_id, anonymize_ips, ingested_event)| ProjectKey {
                project_id: ProjectId(id),
                organization_id,
                anonymize_ips,
                ingested_event,
            },
        ))
    }

    /// Lists up to `keys_max` keys with our format but not our checksum, because they came from
    /// elsewhere.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_imported(self, keys_max: u64) -> Result<Vec<String>, CatalogError> {
        let keys: Vec<Option<String>> = projects::Entity::find()
            .select_only()
            .column(projects::Column::ApiToken)
            .filter(projects::Column::ApiTokenImported.eq(true))
            .filter(projects::Column::ApiToken.is_not_null())
            .order_by_asc(projects::Column::Id)
            .limit(keys_max)
            .into_tuple()
            .all(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        Ok(keys.into_iter().flatten().collect())
    }

    /// Filters keys to those that projects still have. A statement's parameters are bounded: pass
    /// at most a thousand at a time.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn filter_living(self, keys: &[&str]) -> Result<Vec<String>, CatalogError> {
        let living: Vec<Option<String>> = projects::Entity::find()
            .select_only()
            .column(projects::Column::ApiToken)
            .filter(projects::Column::ApiToken.is_in(keys.iter().copied()))
            .into_tuple()
            .all(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        Ok(living.into_iter().flatten().collect())
    }

    /// Marks a project as having events. Nothing is written if it is marked already, or deleted.
    /// The mark is no user's change: it leaves no activity entry and no `updated_at`, and the
    /// counter of keys stays, as a cached result without the mark does no harm.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn note_first_event(self, project_id: ProjectId) -> Result<(), CatalogError> {
        let noted = projects::Entity::update_many()
            .col_expr(projects::Column::IngestedEvent, Expr::val(true))
            .filter(projects::Column::Id.eq(project_id.0))
            .filter(projects::Column::IngestedEvent.eq(false))
            .exec(&self.0.writer)
            .await;
        noted.map(drop).map_err(|error| self.0.error(&error))
    }
}
