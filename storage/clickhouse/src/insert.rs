//! Inserts: one block of one month, under a token.
//!
//! The engine splits an insert into blocks at several limits and stores every block of every
//! partition as a part of its own; only one part is all or nothing. So an insert here stays below
//! every limit, and the settings below lift those that a server's profile may have lowered.
//!
//! The body carries its length, though it is sent piece by piece: a connection that breaks in the
//! middle must not look like a shorter insert.

use crate::definitions::unsent;
use crate::insert_body::{Body, BodyFormat};
use crate::post::SuccessAnswer;
use crate::settings::quoted_name;
use crate::{ClickHouse, InsertError, InsertOutcome};

/// Most rows of one insert.
pub const INSERT_ROWS_MAX: u64 = 1_000_000;
/// Most uncompressed bytes of one insert.
pub const INSERT_BYTES_MAX: u64 = 128 << 20;

/// Settings that make an insert one block, stored before it is answered.
const SETTINGS: [(&str, &str); 9] = [
    // Newer servers turn it on by default; it would answer once the rows are buffered, and regroup
    // our blocks.
    ("async_insert", "0"),
    ("insert_deduplicate", "1"),
    // The reader makes one block of the whole body …
    ("input_format_parallel_parsing", "0"),
    ("max_insert_block_size", "2000000"),
    // … and the writer waits for the end before it makes a part of its rows.
    ("min_insert_block_size_rows", "2000000"),
    ("min_insert_block_size_bytes", "1073741824"),
    ("max_insert_threads", "1"),
    // Two months in one insert would be two parts. Better refused than stored by halves.
    ("max_partitions_per_insert_block", "1"),
    ("throw_on_max_partitions_per_insert_block", "1"),
];

/// One insert: rows of one table and one month.
#[derive(Clone, Copy, Debug)]
pub struct Insert<'a, B> {
    /// Text after `INSERT INTO`: a table and its columns, as the log stores it.
    pub insert_target: &'a str,
    /// Token of this insert, for ever: two inserts with one token are stored once.
    pub token: &'a str,
    /// The rows.
    pub body: &'a B,
}

impl ClickHouse {
    /// Sends one insert and waits until it is stored.
    ///
    /// Success means that rows under this token were stored, by this call or by an earlier one. The
    /// answer proves to be ClickHouse's: it names the insert.
    ///
    /// # Errors
    /// With the state of the rows, as far as it is known.
    pub async fn insert<B: Body>(&self, insert: &Insert<'_, B>) -> Result<(), InsertError> {
        let format = insert.body.format();
        let columns = (insert.insert_target, insert.body.more_columns());
        let sql = self.insert_statement(columns, format)?;
        let mut parameters = vec![
            ("query", sql.as_str()),
            ("insert_deduplication_token", insert.token),
            ("query_id", insert.token),
        ];
        parameters.extend(SETTINGS);
        parameters.extend(format.settings());
        let shared = self.shared_settings();
        parameters.extend(shared.iter().map(|(name, value)| (*name, value.as_str())));
        // `CompressedData` of the crate can only be made by compressing, so it is of no use for
        // blocks that are compressed already: they are sent as they are, with `decompress=1`.
        let answered = self.post(&parameters, insert.body).await?;
        let proven = answered.check_query_id(insert.token);
        proven.map_err(InsertError::unproven)
    }

    /// Settings of all inserts, by quorum and by shards.
    pub(crate) fn shared_settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.settings.quorum_of_inserts();
        settings.extend(self.settings.of_shards());
        settings
    }

    /// Sends rows to the host that is asked now, and turns to another one if it fails.
    pub(crate) async fn post<B: Body>(
        &self,
        parameters: &[(&str, &str)],
        rows: &B,
    ) -> Result<SuccessAnswer, InsertError> {
        let host = self.hosts.current();
        let asked = self.may_ask(host).await;
        asked.map_err(|error| unsent(&error))?;
        let to = (&*self.settings, self.hosts.url(host));
        let answered = self.poster.post(to, parameters, rows).await;
        let is_of_the_host = answered.as_ref().is_err_and(InsertError::is_of_the_host);
        if is_of_the_host {
            self.leave(host).await;
        }
        answered
    }

    fn insert_statement(
        &self,
        (insert_target, more): (&str, &str),
        format: BodyFormat,
    ) -> Result<String, InsertError> {
        let columns = insert_target.trim_end().strip_suffix(')');
        let Some((table, columns)) = columns.and_then(|columns| columns.split_once('(')) else {
            return Err(InsertError {
                outcome: InsertOutcome::Misconfigured,
                code: None,
                message: format!("`{insert_target}` names no columns"),
            });
        };
        let database = quoted_name(&self.settings.database);
        let table = quoted_name(table.trim());
        let comma = if more.is_empty() { "" } else { "," };
        Ok(format!(
            "INSERT INTO {database}.{table} ({columns}{comma}{more}) FORMAT {}",
            format.name()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn an_insert_names_the_columns_of_its_target_and_then_those_of_its_body() {
        let clickhouse = ClickHouse::new(&Settings::new("http://h", "u", "p"));
        let rows = BodyFormat::RowBinary;
        for (target, more, expected) in [
            ("events(uuid,event)", "", Some("`events` (uuid,event)")),
            ("events(uuid)", "a,b", Some("`events` (uuid,a,b)")),
            (
                "rejected_events(`index`) ",
                "",
                Some("`rejected_events` (`index`)"),
            ),
            ("events", "", None),
            ("events(uuid", "", None),
        ] {
            let sql = clickhouse.insert_statement((target, more), rows).ok();
            let expected =
                expected.map(|it| format!("INSERT INTO `millrace`.{it} FORMAT RowBinary"));
            assert_eq!(sql, expected, "{target}");
        }
    }
}
