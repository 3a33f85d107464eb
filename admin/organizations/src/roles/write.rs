//! Creating, changing and deleting roles.

use super::lookup::role_audit;
use super::members::{role_to_change, role_to_end};
use super::{RoleView, Roles, find_view};
use crate::names::checked_name;
use millrace_catalog::entities::roles::{self, FlagsAccess};
use millrace_catalog::features::ROLE_BASED_ACCESS;
use millrace_catalog::limits::{ROLES_MAX, must_have_fewer};
use millrace_catalog::transaction::{Abort, lock_organization, must_act_as};
use millrace_catalog::{Activity, Actor, ChangeError, Level, Patch, is_duplicate};
use schemars::JsonSchema;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use serde::Deserialize;

/// Longest name of a role, in characters.
const NAME_CHARS_MAX: usize = 200;

/// Fields of a new role.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewRole {
    /// Name of the role; unique in the organization, ignoring case.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX), regex(pattern = r"\S"))]
    pub name: String,
    /// Access to feature flags that front ends give its members; 37 if not given.
    #[serde(default)]
    pub feature_flags_access_level: Patch<FlagsAccess>,
}

impl NewRole {
    /// Role with the defaults.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            feature_flags_access_level: Patch::Absent,
        }
    }
}

/// Fields of a role to change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchRole")]
#[serde(default)]
pub struct RoleChange {
    /// Name of the role; unique in the organization, ignoring case.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX), regex(pattern = r"\S"))]
    pub name: Patch<String>,
    /// Access to feature flags that front ends give its members.
    pub feature_flags_access_level: Patch<FlagsAccess>,
}

impl Roles<'_> {
    /// Creates a role; requires administrator.
    ///
    /// # Errors
    ///
    /// The name is blank, too long, or another role's (`unique`); or the actor may not.
    pub async fn create(
        self,
        actor: &Actor,
        organization_id: Uuid,
        new: NewRole,
    ) -> Result<RoleView, ChangeError> {
        let name = checked_role_name(&new.name)?;
        let new = NewRole { name, ..new };
        let transaction = self.0.begin().await?;
        let made = self.make_role(&transaction, actor, organization_id, new);
        let made = made.await;
        self.0.finish(transaction, made).await
    }

    async fn make_role(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization_id: Uuid,
        new: NewRole,
    ) -> Result<RoleView, Abort> {
        let organization = lock_organization(within, organization_id).await?;
        must_act_as(within, actor, organization_id, Level::Administrator).await?;
        organization.must_have(ROLE_BASED_ACCESS)?;
        let own = roles::Column::OrganizationId.eq(organization_id);
        let had = roles::Entity::find().filter(own).count(within).await?;
        must_have_fewer("An organization", ROLES_MAX, "roles", had)?;
        let access = new.feature_flags_access_level.sent();
        let access = access.unwrap_or(FlagsAccess::Edit);
        let row = roles::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            organization_id: ActiveValue::Set(organization_id),
            name_key: ActiveValue::Set(new.name.to_lowercase()),
            name: ActiveValue::Set(new.name),
            feature_flags_access_level: ActiveValue::Set(access),
            created_by_id: ActiveValue::Set(actor.user_id()),
            created_at: ActiveValue::Set(self.0.now()),
        };
        let inserted = roles::Entity::insert(row).exec_with_returning(within);
        let role = inserted.await.map_err(name_taken)?;
        let audit = role_audit(Activity::Created, &role)
            .field("name", (), &role.name)
            .field("feature_flags_access_level", (), access.number());
        self.0.record(within, actor, audit).await?;
        view_of(within, role).await
    }

    /// Changes a role; requires administrator.
    ///
    /// # Errors
    ///
    /// The organization has no such role; the name is blank, too long, or another role's
    /// (`unique`); or the actor may not.
    pub async fn update(
        self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
        change: RoleChange,
    ) -> Result<RoleView, ChangeError> {
        let name = change.name.checked(|name| checked_role_name(&name))?;
        let change = RoleChange { name, ..change };
        let transaction = self.0.begin().await?;
        let changed = async {
            let before = role_to_change(&transaction, actor, organization_id, id).await?;
            let after = self.save_role(&transaction, actor, before, change).await?;
            view_of(&transaction, after).await
        };
        let changed = changed.await;
        self.0.finish(transaction, changed).await
    }

    async fn save_role(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: roles::Model,
        change: RoleChange,
    ) -> Result<roles::Model, Abort> {
        let mut after = before.clone();
        if let Patch::Value(name) = change.name {
            after.name_key = name.to_lowercase();
            after.name = name;
        }
        let access = change.feature_flags_access_level;
        access.apply_to(&mut after.feature_flags_access_level);
        let access = |role: &roles::Model| role.feature_flags_access_level.number();
        let audit = role_audit(Activity::Updated, &after)
            .field("name", &before.name, &after.name)
            .field(
                "feature_flags_access_level",
                access(&before),
                access(&after),
            );
        if audit.changes_nothing() {
            return Ok(before);
        }
        let row = after.into_active_model().reset_all();
        let saved = roles::Entity::update(row).exec(within);
        let saved = saved.await.map_err(name_taken)?;
        self.0.record(within, actor, audit).await?;
        Ok(saved)
    }

    /// Deletes a role; requires administrator. Its members stay in the organization.
    ///
    /// # Errors
    ///
    /// The organization has no such role, or the actor may not.
    pub async fn delete(
        self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let deleted = async {
            let role = role_to_end(&transaction, actor, organization_id, id).await?;
            roles::Entity::delete_by_id(id).exec(&transaction).await?;
            let audit = role_audit(Activity::Deleted, &role);
            self.0.record(&transaction, actor, audit).await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.0.finish(transaction, deleted).await
    }
}

fn checked_role_name(name: &str) -> Result<String, ChangeError> {
    checked_name("the name of a role", "name", name, NAME_CHARS_MAX)
}

async fn view_of(within: &DatabaseTransaction, role: roles::Model) -> Result<RoleView, Abort> {
    let view = find_view(within, role.organization_id, role.id).await?;
    view.ok_or_else(|| ChangeError::not_found("role", &role.id).into())
}

fn name_taken(error: DbErr) -> Abort {
    if is_duplicate(&error) {
        let detail = "The organization has a role of this name.";
        ChangeError::invalid("name", "unique", detail).into()
    } else {
        error.into()
    }
}
