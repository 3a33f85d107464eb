//! Settings of files: format, compression, size.

use crate::error::ExportError;
use crate::rows::{ColumnCompression, RowForm};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::num::NonZeroU64;

/// Settings of files, as in the configuration.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct FileSettings {
    #[serde(default)]
    file_format: Format,
    compression: Option<Compression>,
    max_file_size_mb: Option<NonZeroU64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Format {
    #[default]
    #[serde(rename = "JSONLines")]
    JsonLines,
    #[serde(rename = "CSV")]
    Csv,
    Parquet,
    Arrow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Compression {
    Gzip,
    Brotli,
    Zstd,
    Lz4,
    Snappy,
}

/// Compression of a text format by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after what they are")]
pub(super) enum StreamCompression {
    Gzip,
    Brotli,
    Zstd,
}

/// Reads fields of a configuration.
pub(super) fn read<T: DeserializeOwned>(config: &Value) -> Result<T, ExportError> {
    // Values are not repeated: in a field of the wrong name there may be a secret.
    T::deserialize(config).map_err(|_| {
        let message = "The export's configuration cannot be read: a field is missing or is not \
                       what it should be. Save the destination again.";
        ExportError::permanent(message)
    })
}

impl FileSettings {
    pub(super) fn of(config: &Value) -> Result<Self, ExportError> {
        let settings: Self = read(config)?;
        let known = match (settings.file_format, settings.compression) {
            (_, None) | (Format::Parquet, _) => true,
            (Format::Arrow, Some(by)) => matches!(by, Compression::Lz4 | Compression::Zstd),
            (Format::JsonLines | Format::Csv, Some(_)) => settings.stream_compression().is_some(),
        };
        if known {
            return Ok(settings);
        }
        let message = "Files of this format do not support this compression. Choose another one.";
        Err(ExportError::permanent(message))
    }

    pub(super) fn form(self) -> RowForm {
        match self.file_format {
            Format::JsonLines => RowForm::JsonLines,
            Format::Csv => RowForm::Csv,
            Format::Parquet => RowForm::Parquet(self.column_compression()),
            Format::Arrow => RowForm::Arrow(self.column_compression()),
        }
    }

    /// Bytes of rows that a file is to have at most.
    pub(super) fn file_bytes_max(self) -> Option<u64> {
        self.max_file_size_mb
            .map(|size| size.get().saturating_mul(1 << 20))
    }

    /// Compression of the whole file; none for columnar files, which ClickHouse compresses inside.
    pub(super) fn stream_compression(self) -> Option<StreamCompression> {
        if matches!(self.file_format, Format::Parquet | Format::Arrow) {
            return None;
        }
        match self.compression? {
            Compression::Gzip => Some(StreamCompression::Gzip),
            Compression::Brotli => Some(StreamCompression::Brotli),
            Compression::Zstd => Some(StreamCompression::Zstd),
            Compression::Lz4 | Compression::Snappy => None,
        }
    }

    /// Suffix of file names.
    pub(super) fn suffix(self) -> String {
        let extension = match self.file_format {
            Format::JsonLines => ".jsonl",
            Format::Csv => ".csv",
            Format::Parquet => ".parquet",
            Format::Arrow => ".arrow",
        };
        let compressed = match self.stream_compression() {
            None => "",
            Some(StreamCompression::Gzip) => ".gz",
            Some(StreamCompression::Brotli) => ".br",
            Some(StreamCompression::Zstd) => ".zst",
        };
        format!("{extension}{compressed}")
    }

    fn column_compression(self) -> ColumnCompression {
        match self.compression {
            None => ColumnCompression::None,
            Some(Compression::Gzip) => ColumnCompression::Gzip,
            Some(Compression::Brotli) => ColumnCompression::Brotli,
            Some(Compression::Zstd) => ColumnCompression::Zstd,
            Some(Compression::Lz4) => ColumnCompression::Lz4,
            Some(Compression::Snappy) => ColumnCompression::Snappy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn formats_and_compressions_decide_form_and_suffix() {
        use ColumnCompression as Inside;
        let table = [
            (json!({}), RowForm::JsonLines, ".jsonl"),
            (
                json!({"compression": "gzip"}),
                RowForm::JsonLines,
                ".jsonl.gz",
            ),
            (
                json!({"compression": "brotli"}),
                RowForm::JsonLines,
                ".jsonl.br",
            ),
            (
                json!({"compression": "zstd"}),
                RowForm::JsonLines,
                ".jsonl.zst",
            ),
            (
                json!({"file_format": "CSV", "compression": "zstd"}),
                RowForm::Csv,
                ".csv.zst",
            ),
            (
                json!({"file_format": "CSV", "compression": null}),
                RowForm::Csv,
                ".csv",
            ),
            (
                json!({"file_format": "Parquet"}),
                RowForm::Parquet(Inside::None),
                ".parquet",
            ),
            (
                json!({"file_format": "Parquet", "compression": "snappy"}),
                RowForm::Parquet(Inside::Snappy),
                ".parquet",
            ),
            (
                json!({"file_format": "Arrow", "compression": "lz4"}),
                RowForm::Arrow(Inside::Lz4),
                ".arrow",
            ),
        ];
        for (config, form, suffix) in table {
            let settings = FileSettings::of(&config).unwrap();
            assert_eq!(
                (settings.form(), settings.suffix().as_str()),
                (form, suffix),
                "{config}"
            );
        }
    }

    #[test]
    fn invalid_combinations_are_refused_without_repeating_values() {
        let table = [
            json!({"file_format": "CSV", "compression": "snappy"}),
            json!({"file_format": "Arrow", "compression": "gzip"}),
            json!({"compression": "canary"}),
            json!({"file_format": "canary"}),
            json!({"max_file_size_mb": 0}),
            json!(["canary"]),
        ];
        for config in table {
            let error = FileSettings::of(&config).unwrap_err();
            assert_eq!(error.kind, crate::ExportErrorKind::Permanent, "{config}");
            assert!(!error.message.contains("canary"), "{error}");
        }
    }
}
