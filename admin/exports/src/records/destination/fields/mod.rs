//! Fields of each type of destination: the only place that defines their names, types, needs and
//! examples. Checks, the published schema and the page of examples are made from it.
//!
//! | Module | Holds |
//! |---|---|
//! | `field` | field of a destination |
//! | `files` | destinations that take files |
//! | `tables` | destinations that take rows into a table |
//! | `others` | servers that take batches, and nothing |

mod field;
mod files;
mod others;
mod tables;

pub(super) use field::FORMAT_DEFAULT;
pub use field::{DestinationField, DestinationSpec, FieldKind, FieldNeed, NeededWhen, Sample};

use millrace_catalog::entities::batch_exports::DestinationType;
use serde_json::Value;

impl DestinationSpec {
    /// Specification of a type.
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
            DestinationType::ClickHouse => &tables::CLICKHOUSE,
            DestinationType::Http => &others::HTTP,
            DestinationType::NoOp => &others::NO_OP,
        }
    }

    /// Fields, the most important first.
    pub fn fields(&self) -> impl Iterator<Item = &'static DestinationField> + use<> {
        self.own.iter().chain(self.shared).chain(&others::COMMON)
    }

    /// Complete configuration: all that is required, and what most would add.
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

/// Fields of a type, the most important first.
pub(super) fn fields(kind: DestinationType) -> impl Iterator<Item = &'static DestinationField> {
    DestinationSpec::of(kind).fields()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_are_unique_and_described_and_dependencies_exist() {
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
