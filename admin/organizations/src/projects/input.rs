//! Input for projects: what is sent to create one and to change one.

use super::keys::checked_key;
use crate::names::checked_name;
use jiff::tz::TimeZone;
use millrace_catalog::entities::projects;
use millrace_catalog::{ChangeError, Patch};
use schemars::JsonSchema;
use serde::Deserialize;

/// Longest name of a project, in characters.
const NAME_CHARS_MAX: usize = 200;
/// Time zone of a project that names none.
const TIMEZONE: &str = "UTC";

/// Fields of a new project.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewProject {
    /// Name of the project.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX), regex(pattern = r"\S"))]
    pub name: String,
    /// Key of the operator's choice, to take over SDKs that hold it; `None`: a new one.
    #[serde(skip)]
    pub key: Option<String>,
    /// IANA name of the time zone; `UTC` if not given.
    #[serde(default)]
    pub timezone: Patch<String>,
    /// True if clients' IP addresses are left out of events; false if not given.
    #[serde(default)]
    pub anonymize_ips: Patch<bool>,
}

impl NewProject {
    /// Project with a new key and otherwise the defaults.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            key: None,
            timezone: Patch::Absent,
            anonymize_ips: Patch::Absent,
        }
    }

    /// Validates the fields, and generates a key if none was chosen.
    pub(crate) fn checked(self) -> Result<CheckedProject, ChangeError> {
        let timezone = self.timezone.sent();
        Ok(CheckedProject {
            name: checked_project_name(&self.name)?,
            key: checked_key(self.key)?,
            timezone: checked_timezone(timezone.as_deref().unwrap_or(TIMEZONE))?,
            anonymize_ips: self.anonymize_ips.sent().unwrap_or(false),
        })
    }
}

/// New project whose fields are valid.
pub(crate) struct CheckedProject {
    pub(super) name: String,
    pub(crate) key: String,
    pub(super) timezone: String,
    pub(super) anonymize_ips: bool,
}

/// Fields of a project to change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchProject")]
#[serde(default)]
pub struct ProjectChange {
    /// Name of the project.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX), regex(pattern = r"\S"))]
    pub name: Patch<String>,
    /// IANA name of the time zone.
    pub timezone: Patch<String>,
    /// True if clients' IP addresses are left out of events.
    pub anonymize_ips: Patch<bool>,
}

impl ProjectChange {
    /// Validates the fields that were sent.
    pub(super) fn checked(self) -> Result<Self, ChangeError> {
        Ok(Self {
            name: self.name.checked(|name| checked_project_name(&name))?,
            timezone: self.timezone.checked(|zone| checked_timezone(&zone))?,
            ..self
        })
    }

    /// Writes the fields that were sent.
    pub(super) fn apply_to(self, project: &mut projects::Model) {
        self.name.apply_to(&mut project.name);
        self.timezone.apply_to(&mut project.timezone);
        self.anonymize_ips.apply_to(&mut project.anonymize_ips);
    }
}

fn checked_project_name(name: &str) -> Result<String, ChangeError> {
    checked_name("the name of a project", "name", name, NAME_CHARS_MAX)
}

/// Name of a time zone as the database of zones spells it.
fn checked_timezone(name: &str) -> Result<String, ChangeError> {
    let zone = TimeZone::get(name).ok();
    let known = zone.and_then(|zone| zone.iana_name().map(str::to_owned));
    known.ok_or_else(|| {
        let detail = format!("There is no time zone {name:?}; give one such as Europe/Berlin.");
        ChangeError::invalid("timezone", "invalid_input", detail)
    })
}
