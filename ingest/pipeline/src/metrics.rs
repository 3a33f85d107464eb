//! Descriptions of the metrics of log and shipping; their values are counted where they arise.

use metrics::{
    Unit, describe_counter as count, describe_gauge as gauge, describe_histogram as spread,
};

/// Registers each metric's description. To be called once, after the recorder is installed.
pub fn describe() {
    count!(
        "millrace_log_requests_total",
        "Requests committed to the log"
    );
    count!(
        "millrace_log_row_bytes_total",
        Unit::Bytes,
        "Bytes of rows committed, uncompressed"
    );
    spread!(
        "millrace_log_group_requests",
        "Requests committed by one sync"
    );
    spread!(
        "millrace_log_sync_seconds",
        Unit::Seconds,
        "Time of one sync of the log"
    );
    count!(
        "millrace_log_rows_lost_total",
        "Rows that were acknowledged before they were written (ack = memory), and lost"
    );
    count!(
        "millrace_log_damaged_total",
        "Damaged places of the log that this start found or skipped"
    );
    count!("millrace_inserts_total", "Inserts that ClickHouse stored");
    count!(
        "millrace_insert_rows_total",
        "Rows that ClickHouse stored, by table"
    );
    count!(
        "millrace_insert_row_bytes_total",
        Unit::Bytes,
        "Bytes of rows that ClickHouse stored, uncompressed"
    );
    spread!(
        "millrace_insert_seconds",
        Unit::Seconds,
        "Time of one insert, with reading its rows and retries"
    );
    spread!("millrace_insert_batch_rows", "Rows of one insert");
    count!(
        "millrace_insert_retries_total",
        "Inserts and lookups that were retried, by the outcome of the try before"
    );
    count!(
        "millrace_insert_rows_dead_lettered_total",
        "Rows that ClickHouse refused; they are in the dead-letters folder"
    );
    count!(
        "millrace_insert_rows_salvaged_total",
        "Rows of damaged sections of the log that could be read and were stored; the blocks are in the dead-letters folder"
    );
    gauge!(
        "millrace_shipping_lag_seconds",
        Unit::Seconds,
        "Age of the oldest event that is not yet in ClickHouse"
    );
}
