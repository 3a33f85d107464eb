//! Project keys, with which events are posted.

use super::ProjectKeyChanges;
use super::locks::{lock_project, lock_project_of, project_audit};
use millrace_catalog::entities::projects;
use millrace_catalog::key::{ProjectKeyForm, check_chosen_project_key, generate_project_key, mask};
use millrace_catalog::transaction::{Abort, locked};
use millrace_catalog::{Activity, Actor, ChangeError, is_duplicate};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::{ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter};

impl ProjectKeyChanges<'_> {
    /// Creates the key of a project that has none.
    ///
    /// # Errors
    ///
    /// [`ChangeError::HasKey`] if it has one: replacing it takes [`ProjectKeyChanges::rotate`].
    /// No such project, a bad key, or another project has it.
    pub async fn create(
        self,
        actor: &Actor,
        project_id: ProjectId,
        chosen: Option<String>,
    ) -> Result<projects::Model, ChangeError> {
        let key = checked_key(chosen)?;
        let transaction = self.0.begin().await?;
        let given = async {
            let before = lock_project(&transaction, project_id).await?;
            if before.api_token.is_some() {
                return Err(ChangeError::HasKey(project_id.0).into());
            }
            self.set_key(&transaction, actor, &before, Some(key)).await
        };
        let given = given.await;
        self.0.finish(transaction, given).await
    }

    /// Replaces a project's key; the old one is refused from then on, within 2 seconds everywhere.
    ///
    /// # Errors
    ///
    /// No such project, a bad key, or another project has it.
    pub async fn rotate(
        self,
        actor: &Actor,
        project_id: ProjectId,
        chosen: Option<String>,
    ) -> Result<projects::Model, ChangeError> {
        let key = checked_key(chosen)?;
        let transaction = self.0.begin().await?;
        let rotated = async {
            let before = lock_project(&transaction, project_id).await?;
            self.set_key(&transaction, actor, &before, Some(key)).await
        };
        let rotated = rotated.await;
        self.0.finish(transaction, rotated).await
    }

    /// Replaces the key of an organization's project by a new one; requires administrator.
    ///
    /// # Errors
    ///
    /// The organization has no such project, or the actor may not.
    pub async fn reset(
        self,
        actor: &Actor,
        organization_id: Uuid,
        project_id: ProjectId,
    ) -> Result<projects::Model, ChangeError> {
        let key = generate_project_key()?;
        let transaction = self.0.begin().await?;
        let reset = async {
            let before = lock_project_of(&transaction, actor, organization_id, project_id).await?;
            self.set_key(&transaction, actor, &before, Some(key)).await
        };
        let reset = reset.await;
        self.0.finish(transaction, reset).await
    }

    /// Revokes a project's key; the project accepts no events until it gets another.
    ///
    /// # Errors
    ///
    /// No project has this key.
    pub async fn revoke(self, actor: &Actor, key: &str) -> Result<projects::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let revoked = async {
            let of_key = projects::Entity::find().filter(projects::Column::ApiToken.eq(key));
            let found = locked(&transaction, of_key).one(&transaction).await?;
            let before = found.ok_or_else(|| ChangeError::not_found("project key", &mask(key)))?;
            self.set_key(&transaction, actor, &before, None).await
        };
        let revoked = revoked.await;
        self.0.finish(transaction, revoked).await
    }

    async fn set_key(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: &projects::Model,
        key: Option<String>,
    ) -> Result<projects::Model, Abort> {
        let change = projects::ActiveModel {
            id: ActiveValue::Unchanged(before.id),
            api_token_imported: ActiveValue::Set(key.as_deref().is_some_and(is_imported)),
            api_token: ActiveValue::Set(key),
            updated_at: ActiveValue::Set(self.0.now()),
            ..Default::default()
        };
        let changed = projects::Entity::update(change).exec(within).await;
        let project = changed.map_err(key_taken)?;
        let masked = |project: &projects::Model| project.api_token.as_deref().map(mask);
        let audit = project_audit(Activity::Updated, before);
        let audit = audit.field("api_token", masked(before), masked(&project));
        self.0.record(within, actor, audit).await?;
        self.0.keys_changed(within).await?;
        Ok(project)
    }
}

/// Classifies an error of writing a key.
pub(super) fn key_taken(error: DbErr) -> Abort {
    if is_duplicate(&error) {
        ChangeError::KeyTaken.into()
    } else {
        error.into()
    }
}

pub(super) fn checked_key(chosen: Option<String>) -> Result<String, ChangeError> {
    match chosen {
        Some(key) => {
            check_chosen_project_key(&key)?;
            Ok(key)
        }
        None => Ok(generate_project_key()?),
    }
}

pub(super) fn is_imported(key: &str) -> bool {
    ProjectKeyForm::of(key) == ProjectKeyForm::WrongChecksum
}
