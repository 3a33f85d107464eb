//! Changing projects and deleting them.

use super::locks::{lock_project_of, project_audit};
use super::{ProjectChange, Projects};
use millrace_catalog::entities::projects;
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Activity, Actor, ChangeError};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::{ActiveModelTrait, DatabaseTransaction, EntityTrait, IntoActiveModel};

impl Projects<'_> {
    /// Changes a project's settings; requires administrator. Ingestion follows within 2 seconds
    /// everywhere.
    ///
    /// # Errors
    ///
    /// The organization has no such project, a bad name or time zone, or the actor may not.
    pub async fn update(
        self,
        actor: &Actor,
        organization_id: Uuid,
        project_id: ProjectId,
        change: ProjectChange,
    ) -> Result<projects::Model, ChangeError> {
        let change = change.checked()?;
        let transaction = self.0.begin().await?;
        let changed = async {
            let before = lock_project_of(&transaction, actor, organization_id, project_id).await?;
            self.save(&transaction, actor, before, change).await
        };
        let changed = changed.await;
        self.0.finish(transaction, changed).await
    }

    async fn save(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: projects::Model,
        change: ProjectChange,
    ) -> Result<projects::Model, Abort> {
        let mut after = before.clone();
        change.apply_to(&mut after);
        let audit = project_audit(Activity::Updated, &after)
            .field("name", &before.name, &after.name)
            .field("timezone", &before.timezone, &after.timezone)
            .field("anonymize_ips", before.anonymize_ips, after.anonymize_ips);
        if audit.changes_nothing() {
            return Ok(before);
        }
        after.updated_at = self.0.now();
        let row = after.into_active_model().reset_all();
        let saved = projects::Entity::update(row).exec(within).await?;
        self.0.record(within, actor, audit).await?;
        if saved.anonymize_ips != before.anonymize_ips {
            self.0.keys_changed(within).await?;
        }
        Ok(saved)
    }

    /// Deletes a project and everything below it; requires administrator. Its events stay in
    /// ClickHouse until they are purged. Ingestion refuses its key within 2 seconds everywhere.
    ///
    /// # Errors
    ///
    /// The organization has no such project, or the actor may not.
    pub async fn delete(
        self,
        actor: &Actor,
        organization_id: Uuid,
        project_id: ProjectId,
    ) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let deleted = async {
            let before = lock_project_of(&transaction, actor, organization_id, project_id).await?;
            // Everything below is deleted with it, by ON DELETE CASCADE. Persons, their ids and
            // groups, and runs and logs of exports may be many: triggers mark the project and its
            // exports, and `cleanup` deletes those rows piece by piece.
            projects::Entity::delete_by_id(before.id)
                .exec(&transaction)
                .await?;
            let audit = project_audit(Activity::Deleted, &before);
            self.0.record(&transaction, actor, audit).await?;
            self.0.keys_changed(&transaction).await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.0.finish(transaction, deleted).await
    }
}
