//! Settings of formats, and limits of statements.

use super::statement::{Settings, Statement};
use super::{ColumnCompression, RowForm};
use crate::error::ExportError;
use millrace_clickhouse::ReadOptions;
use std::time::Duration;

/// Rows of a row group in a columnar file at most. ClickHouse keeps a group in memory; a million
/// rows, its default, are a gigabyte of events.
const GROUP_ROWS: &str = "100000";
/// Bytes of a row group at most, before compression.
const GROUP_BYTES: &str = "67108864";
/// Rows of a customer's query at most.
const QUERY_ROWS_MAX: u64 = 1_000_000_000;
/// Time that ClickHouse may work on a customer's query. It does not include the destination's time:
/// a run may take as long as any other.
const QUERY_WORK_MAX: Duration = Duration::from_secs(300);

/// Rows of a block in a customer's query. ClickHouse checks only between blocks whether a statement
/// is to end, and a pattern may take a second for a row.
const QUERY_BLOCK_ROWS: u32 = 1_024;
/// Settings for a customer's query: blocks are small where rows are large, and conditions apply
/// after a block was read. By default ClickHouse evaluates them while it reads, on a granule of
/// rows and more at once.
const QUERY_SETTINGS: [(&str, &str); 2] = [
    ("preferred_block_size_bytes", "262144"),
    ("optimize_move_to_prewhere", "0"),
];

/// Settings that define a format, whatever the server's defaults are.
pub(super) fn format_settings(form: RowForm) -> Result<Settings, ExportError> {
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
        ColumnCompression::Snappy | ColumnCompression::Gzip | ColumnCompression::Brotli => {
            Err(ExportError::permanent(
                "Arrow files can be compressed with zstd or lz4, or not at all.",
            ))
        }
    }
}

/// Options of a statement: it uses little of the machine, at low priority. `query_id` identifies it
/// when it is to be stopped, and must be new for every try.
#[must_use]
pub fn options(statement: &Statement, query_id: impl Into<String>) -> ReadOptions {
    let mut options = ReadOptions::new(query_id);
    let mut more = &[][..];
    if statement.is_of_customer {
        options.work_max = Some(QUERY_WORK_MAX);
        options.result_rows_max = Some(QUERY_ROWS_MAX);
        options.block_rows = QUERY_BLOCK_ROWS;
        more = &QUERY_SETTINGS;
    }
    let own = statement.settings.iter().chain(more);
    options.settings = own
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_customers_query_runs_in_small_blocks_within_its_limits() {
        for is_of_customer in [false, true] {
            let statement = Statement {
                sql: String::new(),
                settings: vec![("format_csv_delimiter", ",")],
                is_of_customer,
            };
            let options = options(&statement, "id");
            let own = ("format_csv_delimiter".to_owned(), ",".to_owned());
            let waits = ("optimize_move_to_prewhere".to_owned(), "0".to_owned());
            assert!(options.settings.contains(&own));
            assert_eq!(options.settings.contains(&waits), is_of_customer);
            let is_small = options.block_rows == QUERY_BLOCK_ROWS;
            assert_eq!(is_small, is_of_customer);
            let limits = (options.threads_max, options.memory_bytes_max);
            assert_eq!(limits, (2, 1 << 30));
            let (time, rows) = (Duration::from_secs(300), 1_000_000_000);
            assert_eq!(options.work_max, is_of_customer.then_some(time));
            assert_eq!(options.result_rows_max, is_of_customer.then_some(rows));
        }
    }
}
