//! Field of a destination, and how the tables of fields describe it.

use serde_json::{Value, json};

/// Kind of value that a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// Number within these bounds.
    Integer {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// Boolean.
    Boolean,
    /// List of texts.
    TextList,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// Name of a format; [`FILE_FORMATS`](super::FILE_FORMATS) has its compressions.
    Format,
    /// Name of a compression that the format has.
    Compression,
    /// HTTP or HTTPS URL.
    Url,
    /// Name or address of a server.
    Host,
    /// Part of a server's name.
    HostPart,
    /// Path of a URL.
    UrlPath,
    /// Folder below the root of exports.
    Path,
    /// Google's JSON key.
    ServiceAccount,
    /// Azure's `AccountName=…;AccountKey=…`.
    AzureConnection,
}

/// Value in an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Text.
    Text(&'static str),
    /// Number.
    Integer(i64),
    /// Boolean.
    Boolean(bool),
    /// List of texts.
    TextList(&'static [&'static str]),
}

impl From<Sample> for Value {
    fn from(sample: Sample) -> Self {
        match sample {
            Sample::Text(text) => json!(text),
            Sample::Integer(number) => json!(number),
            Sample::Boolean(truth) => json!(truth),
            Sample::TextList(texts) => json!(texts),
        }
    }
}

/// Field of a destination's configuration.
#[derive(Clone, Copy, Debug)]
pub struct DestinationField {
    /// Name in `destination.config`.
    pub name: &'static str,
    /// Kind of value that the field holds.
    pub kind: FieldKind,
    /// Purpose of the field, in sentences for customers.
    pub about: &'static str,
    /// Value in the example.
    pub example: Sample,
    /// Value where none is given, if there is one that does not depend on other fields.
    pub default: Option<Sample>,
    /// True if every new destination needs the field, whatever its other fields say.
    pub is_required: bool,
    /// True if the value is encrypted, and never answered.
    pub is_secret: bool,
    /// True if the complete example has the field, too, though it is not required.
    pub is_shown: bool,
    /// True if the field decides which server is sent the secrets, or what is made with them.
    pub(in crate::records::destination) leads: bool,
}

impl DestinationField {
    pub(super) const fn of(self, kind: FieldKind) -> Self {
        Self { kind, ..self }
    }

    pub(super) const fn required(self) -> Self {
        Self {
            is_required: true,
            ..self
        }
    }

    pub(super) const fn secret(self) -> Self {
        Self {
            is_secret: true,
            ..self
        }
    }

    pub(super) const fn leading(self) -> Self {
        Self {
            leads: true,
            ..self
        }
    }

    pub(super) const fn shown(self) -> Self {
        Self {
            is_shown: true,
            ..self
        }
    }

    pub(super) const fn with_default(self, default: Sample) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }
}

/// Condition under which a field is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededWhen {
    /// Another field is given.
    Given(&'static str),
    /// Another field has this value, or is not given and this is its default.
    Is(&'static str, &'static str),
}

/// Dependency of a field on another one.
#[derive(Clone, Copy, Debug)]
pub struct FieldNeed {
    /// Condition under which the field is needed.
    pub when: NeededWhen,
    /// Field that is needed.
    pub field: &'static str,
    /// Only value that will do then; `None`: any.
    pub value: Option<&'static str>,
}

/// Specification of a type of destination.
#[derive(Clone, Copy, Debug)]
pub struct DestinationSpec {
    /// Sentences for customers: what arrives there, and what is to be prepared.
    pub about: &'static str,
    /// Dependencies among the fields.
    pub needs: &'static [FieldNeed],
    pub(super) own: &'static [DestinationField],
    pub(super) shared: &'static [DestinationField],
}

/// Format of files unless another one is given.
pub(in crate::records::destination) const FORMAT_DEFAULT: &str = "JSONLines";

/// Defines a field that may be left out.
pub(super) const fn field(
    name: &'static str,
    kind: FieldKind,
    example: Sample,
    about: &'static str,
) -> DestinationField {
    DestinationField {
        name,
        kind,
        about,
        example,
        default: None,
        is_required: false,
        is_secret: false,
        is_shown: false,
        leads: false,
    }
}

/// Defines a text field that may be left out.
pub(super) const fn text(
    name: &'static str,
    example: &'static str,
    about: &'static str,
) -> DestinationField {
    field(name, FieldKind::Text, Sample::Text(example), about)
}

/// Field that is needed when another one is given.
pub(super) const fn with(given: &'static str, field: &'static str) -> FieldNeed {
    FieldNeed {
        when: NeededWhen::Given(given),
        field,
        value: None,
    }
}

/// Field that is needed when another one has a value.
pub(super) const fn when(
    given: &'static str,
    value: &'static str,
    field: &'static str,
) -> FieldNeed {
    FieldNeed {
        when: NeededWhen::Is(given, value),
        field,
        value: None,
    }
}
