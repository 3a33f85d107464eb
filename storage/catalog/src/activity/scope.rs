//! Kinds of changed resources, and the actions on them.

use sea_orm::{ActiveEnum, DeriveActiveEnum, EnumIter};

/// Kind of the changed resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
#[allow(missing_docs, reason = "named after what they are")]
pub enum ActivityScope {
    #[sea_orm(string_value = "Organization")]
    Organization,
    #[sea_orm(string_value = "OrganizationMembership")]
    Membership,
    #[sea_orm(string_value = "OrganizationInvite")]
    Invite,
    #[sea_orm(string_value = "OrganizationDomain")]
    Domain,
    #[sea_orm(string_value = "Project")]
    Project,
    #[sea_orm(string_value = "PersonalAPIKey")]
    PersonalKey,
    #[sea_orm(string_value = "Session")]
    Session,
    #[sea_orm(string_value = "Role")]
    Role,
    #[sea_orm(string_value = "ProxyRecord")]
    ProxyRecord,
    #[sea_orm(string_value = "BatchExport")]
    BatchExport,
    #[sea_orm(string_value = "Plugin")]
    Plugin,
    #[sea_orm(string_value = "PluginConfig")]
    PluginConfig,
    #[sea_orm(string_value = "HistoricalMigration")]
    HistoricalMigration,
}

impl ActivityScope {
    /// Name in tables and in the API.
    #[must_use]
    pub fn name(self) -> String {
        self.to_value()
    }

    /// Scope with a name; `None` if there is none.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::try_from_value(&name.to_owned()).ok()
    }
}

/// Action on the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[allow(missing_docs, reason = "named after what they are")]
pub enum Activity {
    Created,
    Updated,
    Deleted,
    Installed,
    Uninstalled,
    Enabled,
    Disabled,
    ConfigUpdated,
}

impl Activity {
    /// Name in tables and in the API.
    #[must_use]
    pub fn name(self) -> String {
        self.to_value()
    }
}
