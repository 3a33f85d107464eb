//! Input for keys that another key of the same owner manages: what is sent to create one and to
//! change one.

use super::key_policy::some_organizations;
use super::{KeyConstraints, LABEL_CHARS_MAX, checked_label};
use millrace_catalog::{ChangeError, Patch, Scopes, UtcTime};
use schemars::JsonSchema;
use sea_orm::prelude::Uuid;
use serde::Deserialize;

/// Fields of a new key.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewPersonalAPIKey")]
pub struct NewOwnKey {
    /// Label of the key, for you.
    #[schemars(length(min = 1, max = LABEL_CHARS_MAX), regex(pattern = r"\S"))]
    pub label: String,
    /// Scopes that the key allows: `*`, or `<family>:read` and `<family>:write`.
    pub scopes: Vec<String>,
    /// Time at which the key expires; null: never.
    pub expires_at: Option<UtcTime>,
    /// Organizations that the key is limited to; null or empty: all of yours.
    pub scoped_organizations: Option<Vec<Uuid>>,
}

impl NewOwnKey {
    /// Validates scopes and label.
    pub(super) fn checked(self) -> Result<KeyConstraints, ChangeError> {
        let scopes = Scopes::parse(self.scopes)?;
        Ok(KeyConstraints {
            label: checked_label(&self.label)?,
            scopes,
            expires_at: self.expires_at,
            scoped_organizations: some_organizations(self.scoped_organizations),
        })
    }
}

/// Fields of a key to change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchPersonalAPIKey")]
#[serde(default)]
pub struct OwnKeyChange {
    /// Label of the key, for you.
    #[schemars(length(min = 1, max = LABEL_CHARS_MAX), regex(pattern = r"\S"))]
    pub label: Patch<String>,
    /// Scopes that the key allows: `*`, or `<family>:read` and `<family>:write`.
    pub scopes: Patch<Vec<String>>,
    /// Time at which the key expires; null: never.
    pub expires_at: Patch<Option<UtcTime>>,
    /// Organizations that the key is limited to; null or empty: all of yours.
    pub scoped_organizations: Patch<Option<Vec<Uuid>>>,
}

/// Change of a key whose scopes and label are valid.
pub(super) struct CheckedKeyChange {
    pub(super) label: Patch<String>,
    pub(super) scopes: Patch<Scopes>,
    pub(super) expires_at: Patch<Option<UtcTime>>,
    pub(super) scoped_organizations: Patch<Option<Vec<Uuid>>>,
}

impl OwnKeyChange {
    /// Validates scopes and label.
    pub(super) fn checked(self) -> Result<CheckedKeyChange, ChangeError> {
        let scopes = self.scopes.sent().map(Scopes::parse).transpose()?;
        Ok(CheckedKeyChange {
            label: self.label.checked(|label| checked_label(&label))?,
            scopes: scopes.into(),
            expires_at: self.expires_at,
            scoped_organizations: self.scoped_organizations,
        })
    }
}
