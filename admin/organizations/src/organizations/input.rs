//! Input for organizations: what is sent to create one and to change one.

use crate::names::checked_name;
use millrace_catalog::entities::organizations;
use millrace_catalog::{ChangeError, Patch};
use schemars::JsonSchema;
use serde::Deserialize;

/// Longest name of an organization, in characters.
const NAME_CHARS_MAX: usize = 64;

/// Fields of a new organization.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewOrganization {
    /// Name of the organization.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX), regex(pattern = r"\S"))]
    pub name: String,
    /// True if members get a mail when somebody joins; true if not given.
    #[serde(default)]
    pub is_member_join_email_enabled: Patch<bool>,
    /// True if front ends must require a second factor; null: not decided.
    pub enforce_2fa: Option<bool>,
}

impl From<&str> for NewOrganization {
    /// Organization with the defaults.
    fn from(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_member_join_email_enabled: Patch::Absent,
            enforce_2fa: None,
        }
    }
}

impl NewOrganization {
    /// Validates the name.
    pub(super) fn checked(self) -> Result<Self, ChangeError> {
        let name = checked_organization_name(&self.name)?;
        Ok(Self { name, ..self })
    }
}

/// Fields of an organization to change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchOrganization")]
#[serde(default)]
pub struct OrganizationChange {
    /// Name of the organization. The slug stays.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX), regex(pattern = r"\S"))]
    pub name: Patch<String>,
    /// True if members get a mail when somebody joins.
    pub is_member_join_email_enabled: Patch<bool>,
    /// True if front ends must require a second factor; null: not decided.
    pub enforce_2fa: Patch<Option<bool>>,
    /// True if members below administrator may change exports and plugins.
    pub members_can_write_pipelines: Patch<bool>,
}

impl OrganizationChange {
    /// Validates the name, if it was sent.
    pub(super) fn checked(self) -> Result<Self, ChangeError> {
        let check = |name: String| checked_organization_name(&name);
        let name = self.name.checked(check)?;
        Ok(Self { name, ..self })
    }

    /// Writes the fields that were sent.
    pub(super) fn apply_to(self, organization: &mut organizations::Model) {
        let Self {
            name,
            is_member_join_email_enabled,
            enforce_2fa,
            members_can_write_pipelines,
        } = self;
        name.apply_to(&mut organization.name);
        is_member_join_email_enabled.apply_to(&mut organization.is_member_join_email_enabled);
        enforce_2fa.apply_to(&mut organization.enforce_2fa);
        members_can_write_pipelines.apply_to(&mut organization.members_can_write_pipelines);
    }
}

fn checked_organization_name(name: &str) -> Result<String, ChangeError> {
    checked_name("the name of an organization", "name", name, NAME_CHARS_MAX)
}
