//! How ClickHouse is to write rows, and what a statement may cost.

use super::{ColumnCompression, RowForm, Statement};
use crate::error::ExportError;
use millrace_clickhouse::ReadOptions;
use std::time::Duration;

/// Rows that are compressed together in a columnar file at most. ClickHouse keeps as many in
/// memory; a million, its default, is a gigabyte of events.
const GROUP_ROWS: &str = "100000";
/// The same in bytes before compression.
const GROUP_BYTES: &str = "67108864";
/// Rows that a customer's query may answer.
const QUERY_ROWS_MAX: u64 = 1_000_000_000;
/// How long a customer's query may take.
const QUERY_DURATION_MAX: Duration = Duration::from_secs(3_600);

/// Settings of a statement, by name.
pub(super) type Settings = Vec<(&'static str, &'static str)>;

/// What makes a format what we say it is, whatever a server's defaults.
pub(super) fn of_form(form: RowForm) -> Result<Settings, ExportError> {
    let text = [
        ("date_time_output_format", "iso"),
        ("bool_true_representation", "true"),
        ("bool_false_representation", "false"),
    ];
    let settings: &[_] = match form {
        RowForm::JsonLines | RowForm::TableJsonLines => &[
            ("output_format_json_escape_forward_slashes", "0"),
            ("output_format_json_quote_64bit_integers", "0"),
            ("output_format_json_quote_denormals", "0"),
            ("output_format_json_validate_utf8", "1"),
        ],
        RowForm::Csv => &[
            ("format_csv_delimiter", ","),
            ("format_csv_null_representation", ""),
            ("output_format_csv_crlf_end_of_line", "1"),
        ],
        RowForm::Parquet(_) => &[
            ("output_format_parquet_string_as_string", "1"),
            ("output_format_parquet_datetime_as_uint32", "0"),
            ("output_format_parquet_row_group_size", GROUP_ROWS),
            ("output_format_parquet_row_group_size_bytes", GROUP_BYTES),
        ],
        RowForm::Arrow(_) => &[
            ("output_format_arrow_string_as_string", "1"),
            ("output_format_arrow_low_cardinality_as_dictionary", "0"),
        ],
    };
    let mut settings = settings.to_vec();
    match form {
        RowForm::Parquet(method) => {
            settings.push(("output_format_parquet_compression_method", parquet(method)));
        }
        RowForm::Arrow(method) => {
            settings.push(("output_format_arrow_compression_method", arrow(method)?));
        }
        RowForm::JsonLines | RowForm::TableJsonLines | RowForm::Csv => settings.extend(text),
    }
    Ok(settings)
}

const fn parquet(method: ColumnCompression) -> &'static str {
    match method {
        ColumnCompression::None => "none",
        ColumnCompression::Zstd => "zstd",
        ColumnCompression::Lz4 => "lz4",
        ColumnCompression::Snappy => "snappy",
        ColumnCompression::Gzip => "gzip",
        ColumnCompression::Brotli => "brotli",
    }
}

fn arrow(method: ColumnCompression) -> Result<&'static str, ExportError> {
    match method {
        ColumnCompression::None => Ok("none"),
        ColumnCompression::Zstd => Ok("zstd"),
        ColumnCompression::Lz4 => Ok("lz4_frame"),
        ColumnCompression::Snappy | ColumnCompression::Gzip | ColumnCompression::Brotli => Err(
            ExportError::hopeless("Arrow files can be compressed with zstd or lz4, or not at all."),
        ),
    }
}

/// How a statement is to be run: with little of the machine, and that only while nobody else
/// wants it. `query_id` is what it can be stopped by, and must be new for every try.
#[must_use]
pub fn options(statement: &Statement, query_id: impl Into<String>) -> ReadOptions {
    let mut options = ReadOptions::new(query_id);
    if statement.is_of_customer {
        options.duration_max = QUERY_DURATION_MAX;
        options.result_rows_max = Some(QUERY_ROWS_MAX);
    }
    let own = statement.settings.iter();
    options.settings = own
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    options
}
