//! Users of projects in ClickHouse: hashes of their passwords. Whoever runs ClickHouse reads them
//! here and makes the users.

use super::locks::{lock_project, lock_project_of, project_audit};
use millrace_catalog::entities::{clickhouse_users, projects};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Activity, Actor, Catalog, CatalogError, ChangeError};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::{ActiveValue, DatabaseTransaction, EntityTrait, QueryOrder};

/// Users of projects in ClickHouse.
#[derive(Clone, Copy, Debug)]
pub struct ClickHouseUsers<'a>(&'a Catalog);

/// Hashes of a new password.
#[derive(Clone, Debug)]
pub struct NewClickHouseLogin {
    /// SHA-256 of the password, as hexadecimal digits.
    pub password_sha256: String,
    /// Hash of the token that belongs to it.
    pub token_sha256: String,
}

impl<'a> ClickHouseUsers<'a> {
    /// Returns a handle to the users in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }

    /// Reads the user of a project; `None` if the project has none.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        project_id: ProjectId,
    ) -> Result<Option<clickhouse_users::Model>, CatalogError> {
        let found = clickhouse_users::Entity::find_by_id(project_id.0)
            .one(self.0.reader())
            .await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Lists all users, by project. A process that makes them reads
    /// [`Catalog::keys_version`] first, which every change of them increments.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_all(self) -> Result<Vec<clickhouse_users::Model>, CatalogError> {
        let found = clickhouse_users::Entity::find()
            .order_by_asc(clickhouse_users::Column::TeamId)
            .all(self.0.reader())
            .await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Gives the user of an organization's project a new password; creates the user if the project
    /// has none. Requires administrator.
    ///
    /// # Errors
    ///
    /// The organization has no such project, or the actor may not.
    pub async fn rotate(
        self,
        actor: &Actor,
        organization_id: Uuid,
        project_id: ProjectId,
        new: NewClickHouseLogin,
    ) -> Result<clickhouse_users::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let rotated = async {
            let project = lock_project_of(&transaction, actor, organization_id, project_id).await?;
            self.set(&transaction, actor, &project, new).await
        };
        let rotated = rotated.await;
        self.0.finish(transaction, rotated).await
    }

    /// Gives the user of a project a new password, for the operator.
    ///
    /// # Errors
    ///
    /// There is no such project.
    pub async fn rotate_as_operator(
        self,
        actor: &Actor,
        project_id: ProjectId,
        new: NewClickHouseLogin,
    ) -> Result<clickhouse_users::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let rotated = async {
            let project = lock_project(&transaction, project_id).await?;
            self.set(&transaction, actor, &project, new).await
        };
        let rotated = rotated.await;
        self.0.finish(transaction, rotated).await
    }

    async fn set(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        project: &projects::Model,
        new: NewClickHouseLogin,
    ) -> Result<clickhouse_users::Model, Abort> {
        let before = clickhouse_users::Entity::find_by_id(project.id)
            .one(within)
            .await?;
        let mut row = clickhouse_users::ActiveModel {
            team_id: ActiveValue::Set(project.id),
            password_sha256: ActiveValue::Set(new.password_sha256),
            token_sha256: ActiveValue::Set(new.token_sha256),
            rotated_at: ActiveValue::Set(self.0.now()),
        };
        let saved = if before.is_some() {
            row.team_id = ActiveValue::Unchanged(project.id);
            clickhouse_users::Entity::update(row).exec(within).await?
        } else {
            clickhouse_users::Entity::insert(row)
                .exec_with_returning(within)
                .await?
        };
        let rotated_at = before.map(|before| before.rotated_at);
        let audit = project_audit(Activity::Updated, project).field(
            "clickhouse_user",
            rotated_at,
            Some(saved.rotated_at),
        );
        self.0.record(within, actor, audit).await?;
        self.0.keys_changed(within).await?;
        Ok(saved)
    }
}
