//! Changing organizations and deleting them.

use super::{OrganizationChange, Organizations, organization_audit};
use crate::plugins::must_share_no_plugins;
use millrace_catalog::entities::activity_counts;
use millrace_catalog::entities::organizations::{self, FeatureKeys};
use millrace_catalog::features::{
    DATA_PIPELINES, FEATURES, Feature, ORGANIZATION_SECURITY_SETTINGS, TWO_FACTOR_ENFORCEMENT,
};
use millrace_catalog::transaction::{Abort, lock_organization, must_act_as};
use millrace_catalog::{Activity, Actor, ChangeError, Level};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter,
};

/// Organization whose features were switched.
#[derive(Clone, Debug)]
#[must_use]
pub struct SwitchedFeatures {
    /// Organization with its features from now on.
    pub organization: organizations::Model,
    /// True if its batch exports are to be paused, in the same transaction.
    pub loses_exports: bool,
}

impl Organizations<'_> {
    /// Changes an organization's settings; requires administrator.
    ///
    /// # Errors
    ///
    /// No such organization, a bad name, [`ChangeError::FeatureMissing`] for a second factor or for
    /// keeping members from pipelines, or the actor may not.
    pub async fn update(
        self,
        actor: &Actor,
        id: Uuid,
        change: OrganizationChange,
    ) -> Result<organizations::Model, ChangeError> {
        let change = change.checked()?;
        let transaction = self.0.begin().await?;
        let changed = self.apply(&transaction, actor, id, change);
        let changed = changed.await;
        self.0.finish(transaction, changed).await
    }

    async fn apply(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        id: Uuid,
        change: OrganizationChange,
    ) -> Result<organizations::Model, Abort> {
        let before = lock_organization(within, id).await?;
        must_act_as(within, actor, id, Level::Administrator).await?;
        let mut after = before.clone();
        change.apply_to(&mut after);
        must_have_features(&before, &after)?;
        self.save(within, actor, before, after).await
    }

    /// Sets an organization's level of access to plugins: 0 nothing, 3 configure, 6 install, 9
    /// share them. For the operator.
    ///
    /// # Errors
    ///
    /// No such organization, or none of these levels.
    pub async fn set_plugins_access_level(
        self,
        actor: &Actor,
        id: Uuid,
        level: i16,
    ) -> Result<organizations::Model, ChangeError> {
        if ![0, 3, 6, 9].contains(&level) {
            let detail = "The level of access to plugins is 0, 3, 6 or 9.";
            let field = "plugins_access_level";
            return Err(ChangeError::invalid(Some(field), "invalid_choice", detail));
        }
        let transaction = self.0.begin().await?;
        let changed = async {
            let before = lock_organization(&transaction, id).await?;
            let after = organizations::Model {
                plugins_access_level: level,
                ..before.clone()
            };
            self.save(&transaction, actor, before, after).await
        };
        let changed = changed.await;
        self.0.finish(transaction, changed).await
    }

    /// Takes features away from an organization and gives them back, within a transaction that also
    /// pauses its exports where [`SwitchedFeatures::loses_exports`] says so; for the operator.
    ///
    /// # Errors
    ///
    /// No such organization, or no such feature.
    pub async fn switch_features(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        id: Uuid,
        on: &[String],
        off: &[String],
    ) -> Result<SwitchedFeatures, Abort> {
        for key in on.iter().chain(off) {
            if !FEATURES.iter().any(|feature| feature.key == key) {
                return Err(ChangeError::not_found("feature", key).into());
            }
        }
        let before = lock_organization(within, id).await?;
        let is_off = |feature: &Feature| {
            let (key, was_off) = (feature.key, !before.has_feature(*feature));
            (was_off && !on.iter().any(|on| on == key)) || off.iter().any(|off| off == key)
        };
        let disabled = FEATURES.into_iter().filter(is_off);
        let disabled = disabled.map(|feature| feature.key.to_owned());
        let after = organizations::Model {
            disabled_features: FeatureKeys(disabled.collect()),
            ..before.clone()
        };
        let loses_exports =
            before.has_feature(DATA_PIPELINES) && !after.has_feature(DATA_PIPELINES);
        let organization = self.save(within, actor, before, after).await?;
        Ok(SwitchedFeatures {
            organization,
            loses_exports,
        })
    }

    /// Writes a changed organization and its audit entry; nothing if no field differs.
    async fn save(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: organizations::Model,
        mut after: organizations::Model,
    ) -> Result<organizations::Model, Abort> {
        let audit = organization_audit(Activity::Updated, &after)
            .field("name", &before.name, &after.name)
            .field(
                "is_member_join_email_enabled",
                before.is_member_join_email_enabled,
                after.is_member_join_email_enabled,
            )
            .field("enforce_2fa", before.enforce_2fa, after.enforce_2fa)
            .field(
                "members_can_write_pipelines",
                before.members_can_write_pipelines,
                after.members_can_write_pipelines,
            )
            .field(
                "plugins_access_level",
                before.plugins_access_level,
                after.plugins_access_level,
            )
            .field(
                "disabled_features",
                &before.disabled_features,
                &after.disabled_features,
            );
        if audit.changes_nothing() {
            return Ok(before);
        }
        after.updated_at = self.0.now();
        let row = after.into_active_model().reset_all();
        let saved = organizations::Entity::update(row).exec(within).await?;
        self.0.record(within, actor, audit).await?;
        Ok(saved)
    }

    /// Deletes an organization and everything below it; requires owner. Its events stay in
    /// ClickHouse until they are purged. Ingestion refuses its project keys within 2 seconds
    /// everywhere.
    ///
    /// # Errors
    ///
    /// No such organization, other organizations use plugins of it, or the actor may not.
    pub async fn delete(self, actor: &Actor, id: Uuid) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let deleted = self.remove(&transaction, actor, id).await;
        self.0.finish(transaction, deleted).await
    }

    async fn remove(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        id: Uuid,
    ) -> Result<(), Abort> {
        let before = lock_organization(within, id).await?;
        must_act_as(within, actor, id, Level::Owner).await?;
        must_share_no_plugins(within, id).await?;
        // Everything below is deleted with it, by ON DELETE CASCADE. Persons, runs of exports,
        // sources of plugins and the log may be many: triggers mark the organization, and `cleanup`
        // deletes those rows piece by piece. The log's last entry stays for the operator.
        organizations::Entity::delete_by_id(id).exec(within).await?;
        activity_counts::Entity::delete_many()
            .filter(activity_counts::Column::OrganizationId.eq(id))
            .exec(within)
            .await?;
        let audit = organization_audit(Activity::Deleted, &before);
        self.0
            .record(within, actor, audit.narrowed_to(None))
            .await?;
        self.0.keys_changed(within).await?;
        Ok(())
    }
}

/// Checks the features of changed settings; sending a value again needs none.
fn must_have_features(
    before: &organizations::Model,
    after: &organizations::Model,
) -> Result<(), ChangeError> {
    if after.enforce_2fa == Some(true) && before.enforce_2fa != after.enforce_2fa {
        before.must_have(TWO_FACTOR_ENFORCEMENT)?;
    }
    if before.members_can_write_pipelines && !after.members_can_write_pipelines {
        before.must_have(ORGANIZATION_SECURITY_SETTINGS)?;
    }
    Ok(())
}
