//! Destinations of exports: configuration, secrets and their checks.
//!
//! A configuration is made of the fields of its type; other fields are ignored. Secret fields are
//! kept encrypted, apart from the rest. A change that does not name them keeps them, unless it
//! leads to another server: then they must be given again, as an editor of an export must not learn
//! its secrets through a server of their own.
//!
//! | Module | Holds |
//! |---|---|
//! | `fields` | fields of each type |
//! | `stored` | destinations before and after a change |
//! | `value` | checks of their values |
//! | `address` | checks of values that are addresses, paths, or keys that name some |
//! | `field_errors` | errors about values |
//! | `stores` | checks of names in object stores |

mod address;
mod field_errors;
mod fields;
mod stored;
mod stores;
mod value;

pub use address::DestinationLimits;
pub use fields::{
    DestinationField, DestinationSpec, FILE_FORMATS, FieldKind, FieldNeed, NeededWhen, Sample,
};
pub(super) use stored::{ChangedDestination, StoredDestination};

use super::secrets_of;
use crate::secrets::SecretKey;
use field_errors::FieldError;
use fields::{FORMAT_DEFAULT, fields};
use millrace_catalog::entities::batch_exports::{self as exports, DestinationType};
use millrace_catalog::{ChangeError, Violation};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Name of the field that holds a folder of this server.
const PATH: &str = "path";

/// Requested change of a destination.
#[derive(Clone, Debug, Default)]
pub struct DestinationChange {
    /// Type; needed for a new export. A change of type starts with no fields.
    pub kind: Option<DestinationType>,
    /// Values of fields; null removes one.
    pub config: Map<String, Value>,
}

/// A destination whose fields were checked, and its secrets, for a test of it.
#[derive(Clone, Debug)]
pub struct CheckedDestination {
    /// Type of the destination.
    pub kind: DestinationType,
    /// Fields that are no secrets.
    pub config: Value,
    /// Secret fields, as they are sent to the destination.
    pub secrets: BTreeMap<String, String>,
    /// See [`millrace_catalog::BatchExport::files_at_root`].
    pub files_at_root: bool,
}

impl CheckedDestination {
    /// Applies a change to an export's destination, or to an empty one if there is no export yet.
    ///
    /// # Errors
    ///
    /// A bad field, or secrets that were sealed with another key.
    pub fn of(
        before: Option<&exports::Model>,
        change: &DestinationChange,
        key: &SecretKey,
        limits: &DestinationLimits<'_>,
    ) -> Result<Self, ChangeError> {
        let changed = apply_change(before.map(StoredDestination::of), change, limits)?;
        let files_at_root = before.is_some_and(|export| stays_at_root(export, &changed.stored));
        let mut secrets = match before {
            Some(export) => secrets_of(export, key).map_err(|_| sealed_otherwise())?,
            None => BTreeMap::new(),
        };
        secrets.retain(|name, _| changed.stored.secrets.contains_key(name));
        let given = changed.new_secrets.into_iter();
        secrets.extend(given.map(|(name, secret)| (name.to_owned(), secret)));
        Ok(Self {
            kind: changed.stored.kind,
            config: Value::Object(changed.stored.config),
            secrets,
            files_at_root,
        })
    }
}

/// True if files stay where they went before organizations had folders of their own: as long as the
/// path is as it was.
pub(super) fn stays_at_root(before: &exports::Model, after: &StoredDestination) -> bool {
    before.files_at_root
        && before.destination_type == after.kind
        && before.destination_config.get(PATH) == after.config.get(PATH)
}

/// Error: secrets were sealed with another key.
fn sealed_otherwise() -> ChangeError {
    let detail = "The secrets were encrypted with a key that this server does not have; give them \
                  again, or ask the operator for the key.";
    field_error("destination__config", ("invalid_input", detail.to_owned()))
}

/// Applies a change to a stored destination, or to an empty one; all fields are checked.
pub(super) fn apply_change(
    before: Option<StoredDestination>,
    change: &DestinationChange,
    limits: &DestinationLimits<'_>,
) -> Result<ChangedDestination, ChangeError> {
    let kind = change.kind.or(before.as_ref().map(|stored| stored.kind));
    let Some(kind) = kind else {
        let detail = "This field is required.".to_owned();
        return Err(field_error("destination__type", ("required", detail)));
    };
    let nothing = StoredDestination {
        kind,
        config: Map::new(),
        secrets: Map::new(),
    };
    let before = before
        .filter(|stored| stored.kind == kind)
        .unwrap_or(nothing);
    let mut after = ChangedDestination {
        stored: before.clone(),
        new_secrets: Vec::new(),
    };
    for field in fields(kind) {
        if let Some(value) = change.config.get(field.name) {
            // A path that was stored earlier may be one that the present rules refuse.
            let is_kept = field.name == PATH && before.config.get(PATH) == Some(value);
            if is_kept && limits.export_root.is_some() {
                continue;
            }
            after.set(field, value, limits)?;
        }
    }
    after.check_complete()?;
    stores::check(&before, &after).map_err(|(field, error)| field_error(&attr(field), error))?;
    after.check_given_again(&before)?;
    after.check_needs()?;
    after.check_format()?;
    Ok(after)
}

impl ChangedDestination {
    fn set(
        &mut self,
        field: &'static DestinationField,
        value: &Value,
        limits: &DestinationLimits<'_>,
    ) -> Result<(), ChangeError> {
        if value.is_null() {
            if field.is_required {
                let detail = "This field may not be null.".to_owned();
                return Err(field.field_error(("null", detail)));
            }
            self.stored.config.remove(field.name);
            self.stored.secrets.remove(field.name);
            return Ok(());
        }
        let value = value::checked(field.kind, value, limits);
        let value = value.map_err(|error| field.field_error(error))?;
        let is_blank = value.as_str().is_some_and(|text| text.trim().is_empty());
        if is_blank && (field.is_required || field.is_secret) {
            let detail = "This field may not be blank.".to_owned();
            return Err(field.field_error(("blank", detail)));
        }
        match value {
            Value::String(text) if field.is_secret => self.new_secrets.push((field.name, text)),
            value => drop(self.stored.config.insert(field.name.to_owned(), value)),
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.stored.config.contains_key(name)
            || self.stored.secrets.contains_key(name)
            || self.is_given(name)
    }

    /// Returns true if the change names this secret.
    fn is_given(&self, name: &str) -> bool {
        self.new_secrets.iter().any(|(given, _)| *given == name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.stored.config.get(name).and_then(Value::as_str)
    }

    fn check_complete(&self) -> Result<(), ChangeError> {
        let missing =
            fields(self.stored.kind).find(|field| field.is_required && !self.has(field.name));
        missing.map_or(Ok(()), |field| {
            let detail = "This field is required.".to_owned();
            Err(field.field_error(("required", detail)))
        })
    }

    /// Refuses to send secrets that were given for one server to another.
    fn check_given_again(&self, before: &StoredDestination) -> Result<(), ChangeError> {
        let differs = |name| self.stored.config.get(name) != before.config.get(name);
        let leads_elsewhere = |field: &'static DestinationField| {
            field.leads && (self.is_given(field.name) || differs(field.name))
        };
        if !fields(self.stored.kind).any(leads_elsewhere) {
            return Ok(());
        }
        let is_old = |name| self.stored.secrets.contains_key(name) && !self.is_given(name);
        let old = fields(self.stored.kind).find(|field| is_old(field.name));
        old.map_or(Ok(()), |field| {
            let detail = "Give this again: it would be sent to another place than before.";
            Err(field.field_error(("required", detail.to_owned())))
        })
    }

    fn check_format(&self) -> Result<(), ChangeError> {
        let Some(compression) = self.text("compression") else {
            return Ok(());
        };
        let format = self.text("file_format").unwrap_or(FORMAT_DEFAULT);
        let known = FILE_FORMATS.iter().find(|(name, _)| *name == format);
        let compressions = known.map_or(&[][..], |(_, compressions)| compressions);
        if compressions.contains(&compression) {
            return Ok(());
        }
        let detail = format!(
            "{format} is compressed by {}, or not at all.",
            value::one_of(compressions)
        );
        Err(field_error(&attr("compression"), ("invalid_input", detail)))
    }

    /// Requires that fields that go together are there together, whichever of them were given
    /// before.
    fn check_needs(&self) -> Result<(), ChangeError> {
        let needs = DestinationSpec::of(self.stored.kind).needs.iter();
        let mut needs = needs.filter(|need| self.is_due(need));
        needs.try_for_each(|need| {
            let (NeededWhen::Given(other) | NeededWhen::Is(other, _)) = need.when;
            let error = match need.value {
                _ if !self.has(need.field) => {
                    ("required", format!("Give this, too: {other} needs it."))
                }
                Some(value) if self.text(need.field) != Some(value) => {
                    let detail = format!("This must be {value}: {other} needs that.");
                    ("invalid_input", detail)
                }
                _ => return Ok(()),
            };
            Err(field_error(&attr(need.field), error))
        })
    }

    fn is_due(&self, need: &FieldNeed) -> bool {
        match need.when {
            NeededWhen::Given(name) => self.has(name),
            NeededWhen::Is(name, value) => {
                let of = |field: &&DestinationField| field.name == name;
                let default = fields(self.stored.kind)
                    .find(of)
                    .and_then(|field| field.default);
                let is_default = default == Some(Sample::Text(value));
                self.text(name).map_or(is_default, |given| given == value)
            }
        }
    }
}

impl DestinationField {
    fn field_error(&self, error: FieldError) -> ChangeError {
        field_error(&attr(self.name), error)
    }
}

/// Name of a field of the configuration in errors.
fn attr(name: &str) -> String {
    format!("destination__config__{name}")
}

fn field_error(attr: &str, (code, detail): FieldError) -> ChangeError {
    ChangeError::Invalid(Box::new(Violation {
        field: Some(attr.to_owned()),
        code,
        detail,
    }))
}
