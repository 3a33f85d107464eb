//! Destinations: where an export goes, and how it gets there.
//!
//! A configuration is made of the fields of its type; others are ignored. Those that are secret
//! are kept encrypted, apart from the rest, and a change that does not name them keeps them,
//! unless it leads elsewhere: then they must be given again, as whoever may change an export must
//! not learn its secrets from a server of their own.
//!
//! | Module | Holds |
//! |---|---|
//! | `fields` | which fields each type has |
//! | `value` | checks of their values |
//! | `stores` | checks of names in object stores |

mod fields;
mod stores;
mod value;

pub use fields::{
    DestinationField, DestinationSpec, FILE_FORMATS, FieldKind, FieldNeed, NeededWhen, Sample,
};

use crate::entities::batch_exports::{self as exports, DestinationType};
use crate::error::{ChangeError, Violation};
use crate::secrets::SecretKey;
use fields::{FORMAT_DEFAULT, fields};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// The field of a folder of this server.
const PATH: &str = "path";

/// Where exports may go.
#[derive(Clone, Copy, Debug)]
pub struct DestinationLimits<'a> {
    /// Whether private networks are no worse than the internet.
    pub allow_private: bool,
    /// Whether an address is one of the internet.
    pub is_public: fn(IpAddr) -> bool,
    /// The folder that exports to files stay in; `None`: there are none.
    pub export_root: Option<&'a Path>,
}

/// What is said of a destination.
#[derive(Clone, Debug, Default)]
pub struct DestinationChange {
    /// The type; needed for a new export. Another one than before starts from nothing.
    pub kind: Option<DestinationType>,
    /// Fields; null takes one away.
    pub config: Map<String, Value>,
}

/// A destination whose fields were checked, and its secrets, for a test of it.
#[derive(Clone, Debug)]
pub struct CheckedDestination {
    /// Its type.
    pub kind: DestinationType,
    /// Its fields that are no secrets.
    pub config: Value,
    /// The others, as they are sent to it.
    pub secrets: BTreeMap<String, String>,
    /// As [`crate::BatchExport::files_at_root`].
    pub files_at_root: bool,
}

impl CheckedDestination {
    /// What an export would have after a change, or a new one if there is none yet.
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
        let changed = changed(before.map(Kept::of), change, limits)?;
        let files_at_root = before.is_some_and(|export| stays_at_root(export, &changed.kept));
        let mut secrets = match before {
            Some(export) => export.secrets(key).map_err(|_| sealed_otherwise())?,
            None => BTreeMap::new(),
        };
        secrets.retain(|name, _| changed.kept.secrets.contains_key(name));
        let given = changed.new_secrets.into_iter();
        secrets.extend(given.map(|(name, secret)| (name.to_owned(), secret)));
        Ok(Self {
            kind: changed.kept.kind,
            config: Value::Object(changed.kept.config),
            secrets,
            files_at_root,
        })
    }
}

/// Keeps files where they went before organizations had folders of their own, as long as the path is
/// as it was.
pub(super) fn stays_at_root(before: &exports::Model, after: &Kept) -> bool {
    before.files_at_root
        && before.destination_type == after.kind
        && before.destination_config.get(PATH) == after.config.get(PATH)
}

/// Secrets were sealed with another key.
fn sealed_otherwise() -> ChangeError {
    let detail = "The secrets were encrypted with a key that this server does not have; give them \
                  again, or ask the operator for the key.";
    blamed("destination__config", ("invalid_input", detail.to_owned()))
}

/// What is kept of a destination. Its secrets are sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) kind: DestinationType,
    pub(super) config: Map<String, Value>,
    pub(super) secrets: Map<String, Value>,
}

/// A destination after a change, all fields checked.
#[derive(Debug)]
pub(super) struct Changed {
    /// What is kept, without the new secrets.
    pub(super) kept: Kept,
    /// Secrets that are to be sealed.
    pub(super) new_secrets: Vec<(&'static str, String)>,
}

/// Makes a change of what is kept, or a destination of what is said.
pub(super) fn changed(
    before: Option<Kept>,
    change: &DestinationChange,
    limits: &DestinationLimits<'_>,
) -> Result<Changed, ChangeError> {
    let kind = change.kind.or(before.as_ref().map(|kept| kept.kind));
    let Some(kind) = kind else {
        let detail = "This field is required.".to_owned();
        return Err(blamed("destination__type", ("required", detail)));
    };
    let nothing = Kept {
        kind,
        config: Map::new(),
        secrets: Map::new(),
    };
    let before = before.filter(|kept| kept.kind == kind).unwrap_or(nothing);
    let mut after = Changed {
        kept: before.clone(),
        new_secrets: Vec::new(),
    };
    for field in fields(kind) {
        if let Some(value) = change.config.get(field.name) {
            // A path of before may be one that is given to nobody any more.
            let is_kept = field.name == PATH && before.config.get(PATH) == Some(value);
            if is_kept && limits.export_root.is_some() {
                continue;
            }
            after.set(field, value, limits)?;
        }
    }
    after.check_complete()?;
    stores::check(&before, &after).map_err(|(field, wrong)| blamed(&attr(field), wrong))?;
    after.check_given_again(&before)?;
    after.check_needs()?;
    after.check_format()?;
    Ok(after)
}

impl Changed {
    fn set(
        &mut self,
        field: &'static DestinationField,
        value: &Value,
        limits: &DestinationLimits<'_>,
    ) -> Result<(), ChangeError> {
        if value.is_null() {
            if field.is_required {
                let detail = "This field may not be null.".to_owned();
                return Err(field.blamed(("null", detail)));
            }
            self.kept.config.remove(field.name);
            self.kept.secrets.remove(field.name);
            return Ok(());
        }
        let value = value::checked(field.kind, value, limits);
        let value = value.map_err(|wrong| field.blamed(wrong))?;
        let is_blank = value.as_str().is_some_and(|text| text.trim().is_empty());
        if is_blank && (field.is_required || field.is_secret) {
            let detail = "This field may not be blank.".to_owned();
            return Err(field.blamed(("blank", detail)));
        }
        match value {
            Value::String(text) if field.is_secret => self.new_secrets.push((field.name, text)),
            value => drop(self.kept.config.insert(field.name.to_owned(), value)),
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.kept.config.contains_key(name)
            || self.kept.secrets.contains_key(name)
            || self.is_given(name)
    }

    /// Whether the change names this secret.
    fn is_given(&self, name: &str) -> bool {
        self.new_secrets.iter().any(|(given, _)| *given == name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.kept.config.get(name).and_then(Value::as_str)
    }

    fn check_complete(&self) -> Result<(), ChangeError> {
        let missing =
            fields(self.kept.kind).find(|field| field.is_required && !self.has(field.name));
        missing.map_or(Ok(()), |field| {
            let detail = "This field is required.".to_owned();
            Err(field.blamed(("required", detail)))
        })
    }

    /// Secrets that were given for one place are not sent to another.
    fn check_given_again(&self, before: &Kept) -> Result<(), ChangeError> {
        let differs = |name| self.kept.config.get(name) != before.config.get(name);
        let leads_elsewhere = |field: &'static DestinationField| {
            field.leads && (self.is_given(field.name) || differs(field.name))
        };
        if !fields(self.kept.kind).any(leads_elsewhere) {
            return Ok(());
        }
        let is_old = |name| self.kept.secrets.contains_key(name) && !self.is_given(name);
        let old = fields(self.kept.kind).find(|field| is_old(field.name));
        old.map_or(Ok(()), |field| {
            let detail = "Give this again: it would be sent to another place than before.";
            Err(field.blamed(("required", detail.to_owned())))
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
        Err(blamed(&attr("compression"), ("invalid_input", detail)))
    }

    /// Fields that go together are there together, whichever of them were given before.
    fn check_needs(&self) -> Result<(), ChangeError> {
        let needs = DestinationSpec::of(self.kept.kind).needs.iter();
        let mut needs = needs.filter(|need| self.is_due(need));
        needs.try_for_each(|need| {
            let (NeededWhen::Given(other) | NeededWhen::Is(other, _)) = need.when;
            let wrong = match need.value {
                _ if !self.has(need.field) => {
                    ("required", format!("Give this, too: {other} needs it."))
                }
                Some(value) if self.text(need.field) != Some(value) => {
                    let detail = format!("This must be {value}: {other} needs that.");
                    ("invalid_input", detail)
                }
                _ => return Ok(()),
            };
            Err(blamed(&attr(need.field), wrong))
        })
    }

    fn is_due(&self, need: &FieldNeed) -> bool {
        match need.when {
            NeededWhen::Given(name) => self.has(name),
            NeededWhen::Is(name, value) => {
                let of = |field: &&DestinationField| field.name == name;
                let default = fields(self.kept.kind)
                    .find(of)
                    .and_then(|field| field.default);
                let is_default = default == Some(Sample::Text(value));
                self.text(name).map_or(is_default, |given| given == value)
            }
        }
    }
}

impl DestinationField {
    fn blamed(&self, wrong: value::Wrong) -> ChangeError {
        blamed(&attr(self.name), wrong)
    }
}

/// A field of the configuration as errors name it.
fn attr(name: &str) -> String {
    format!("destination__config__{name}")
}

fn blamed(attr: &str, (code, detail): value::Wrong) -> ChangeError {
    ChangeError::Invalid(Box::new(Violation {
        field: Some(attr.to_owned()),
        code,
        detail,
    }))
}
