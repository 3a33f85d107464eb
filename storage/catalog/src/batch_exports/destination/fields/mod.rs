//! Fields of each type of destination: the one place that says what they are called, hold, need
//! and look like. Checks, the published schema and the page of examples are made from it.
//!
//! | Module | Holds |
//! |---|---|
//! | `files` | destinations that take files |
//! | `tables` | destinations that take rows into a table |
//! | `others` | servers that take batches, and nothing |

mod files;
mod others;
mod tables;

use crate::entities::batch_exports::DestinationType;
use serde_json::{Value, json};

/// Kind of value that a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A text.
    Text,
    /// A number of these.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// True or false.
    Boolean,
    /// A list of texts.
    TextList,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// The name of a format; what goes with it is in [`FILE_FORMATS`].
    Format,
    /// The name of a compression that the format has.
    Compression,
    /// An http or https URL.
    Url,
    /// The name or address of a server.
    Host,
    /// A part of a server's name.
    HostPart,
    /// What follows a server's name in a URL.
    UrlPath,
    /// A folder below the root of exports.
    Path,
    /// Google's JSON key.
    ServiceAccount,
    /// Azure's `AccountName=…;AccountKey=…`.
    AzureConnection,
}

/// A value in an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// A text.
    Text(&'static str),
    /// A number.
    Integer(i64),
    /// True or false.
    Boolean(bool),
    /// A list of texts.
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

/// A field of a destination's configuration.
#[derive(Clone, Copy, Debug)]
pub struct DestinationField {
    /// Its name in `destination.config`.
    pub name: &'static str,
    /// Kind of value that it holds.
    pub kind: FieldKind,
    /// Purpose of it, in sentences for customers.
    pub about: &'static str,
    /// A value that it could have.
    pub example: Sample,
    /// Its value where none is given, if there is one that does not depend on others.
    pub default: Option<Sample>,
    /// Whether a new destination needs it whatever its other fields say.
    pub is_required: bool,
    /// Whether it is encrypted, and never answered.
    pub is_secret: bool,
    /// Whether the complete example has it, too, though it is not required.
    pub is_shown: bool,
    /// Whether it says which server is sent the secrets, or what is made with them.
    pub(super) leads: bool,
}

/// When a field is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededWhen {
    /// Another one is given.
    Given(&'static str),
    /// Another one has this value, or none is given and this is its default.
    Is(&'static str, &'static str),
}

/// Fields that go together.
#[derive(Clone, Copy, Debug)]
pub struct FieldNeed {
    /// When it is needed.
    pub when: NeededWhen,
    /// The field.
    pub field: &'static str,
    /// The one value that will do then; `None`: any.
    pub value: Option<&'static str>,
}

/// Everything that there is to say of a type of destination.
#[derive(Clone, Copy, Debug)]
pub struct DestinationSpec {
    /// Sentences for customers: what arrives there, and what is to be prepared.
    pub about: &'static str,
    /// Fields that go together.
    pub needs: &'static [FieldNeed],
    own: &'static [DestinationField],
    shared: &'static [DestinationField],
}

impl DestinationSpec {
    /// That of a type.
    #[must_use]
    pub fn of(kind: DestinationType) -> &'static Self {
        match kind {
            DestinationType::S3 => &files::S3,
            DestinationType::AzureBlob => &files::AZURE_BLOB,
            DestinationType::Gcs => &files::GCS,
            DestinationType::FileSystem => &files::FILE_SYSTEM,
            DestinationType::Postgres => &tables::POSTGRES,
            DestinationType::Redshift => &tables::REDSHIFT,
            DestinationType::Snowflake => &tables::SNOWFLAKE,
            DestinationType::BigQuery => &tables::BIG_QUERY,
            DestinationType::Databricks => &tables::DATABRICKS,
            DestinationType::Http => &others::HTTP,
            DestinationType::NoOp => &others::NO_OP,
        }
    }

    /// The fields, those that matter most first.
    pub fn fields(&self) -> impl Iterator<Item = &'static DestinationField> + use<> {
        self.own.iter().chain(self.shared).chain(&others::COMMON)
    }

    /// A complete configuration: all that is required, and what most would add.
    #[must_use]
    pub fn example(&self) -> Value {
        let shown = self.fields().filter(|it| it.is_required || it.is_shown);
        let values = shown.map(|field| (field.name.to_owned(), Value::from(field.example)));
        Value::Object(values.collect())
    }
}

/// File formats and the compressions that each has.
pub const FILE_FORMATS: [(&str, &[&str]); 4] = [
    ("JSONLines", &["gzip", "brotli", "zstd"]),
    ("Parquet", &["zstd", "lz4", "snappy", "gzip", "brotli"]),
    ("CSV", &["gzip", "brotli", "zstd"]),
    ("Arrow", &["lz4", "zstd"]),
];
/// The format of files unless another one is given.
pub(super) const FORMAT_DEFAULT: &str = "JSONLines";

/// The fields of a type, those that matter most first.
pub(super) fn fields(kind: DestinationType) -> impl Iterator<Item = &'static DestinationField> {
    DestinationSpec::of(kind).fields()
}

/// A field that may be left out.
const fn field(
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

/// A field with a text that may be left out.
const fn text(name: &'static str, example: &'static str, about: &'static str) -> DestinationField {
    field(name, FieldKind::Text, Sample::Text(example), about)
}

impl DestinationField {
    const fn of(self, kind: FieldKind) -> Self {
        Self { kind, ..self }
    }

    const fn required(self) -> Self {
        Self {
            is_required: true,
            ..self
        }
    }

    const fn secret(self) -> Self {
        Self {
            is_secret: true,
            ..self
        }
    }

    const fn leading(self) -> Self {
        Self {
            leads: true,
            ..self
        }
    }

    const fn shown(self) -> Self {
        Self {
            is_shown: true,
            ..self
        }
    }

    const fn with_default(self, default: Sample) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }
}

/// One that is needed when another one is given.
const fn with(given: &'static str, field: &'static str) -> FieldNeed {
    FieldNeed {
        when: NeededWhen::Given(given),
        field,
        value: None,
    }
}

/// One that is needed when another one has a value.
const fn when(given: &'static str, value: &'static str, field: &'static str) -> FieldNeed {
    FieldNeed {
        when: NeededWhen::Is(given, value),
        field,
        value: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_once_and_described_and_what_is_needed_is_one() {
        for kind in DestinationType::all() {
            let spec = DestinationSpec::of(kind);
            let names: Vec<_> = spec.fields().map(|field| field.name).collect();
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), names.len(), "{kind:?}");
            assert!(spec.about.ends_with('.'), "{kind:?}");
            for field in spec.fields() {
                assert!(field.about.ends_with('.'), "{kind:?} {}", field.name);
            }
            for need in spec.needs {
                let (NeededWhen::Given(other) | NeededWhen::Is(other, _)) = need.when;
                let known = |name| names.contains(&name);
                assert!(known(need.field) && known(other), "{kind:?} {need:?}");
            }
        }
    }
}
