//! Property columns of past rows: parts from before a column are given its values, one month after
//! the other, from the newest, and one at a time.
//!
//! It only saves time: a query computes the values of a part that lacks a column. So nothing is
//! kept of how far it is: the parts tell.

use super::stored::OF_EVERY_TABLE;
use crate::nonce::Nonce;
use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use millrace_rows::{Month, Table};
use serde::Deserialize;
use std::collections::BTreeMap;

/// State of the property columns of past rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastRows {
    /// Every part has every column.
    Filled,
    /// Parts of this month are being given columns from now on.
    Begun(Month),
    /// Parts of events are still being rewritten, for this or for another purpose.
    Busy {
        /// Reason why the last part could not be rewritten; empty when nothing failed. The server
        /// tries again by itself.
        failure: String,
    },
}

/// Numbers of parts of each month that have a column, in the same order: one row, as an answer
/// without any would have no nonce.
#[derive(clickhouse::Row, Deserialize)]
struct Parts {
    nonce: String,
    months: Vec<u32>,
    columns: Vec<String>,
    counts: Vec<u64>,
}

impl ClickHouse {
    /// Begins to give the parts of a month the property columns that they lack, unless parts are
    /// being rewritten.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn fill_past_rows(&self) -> Result<PastRows, QueryError> {
        let stored = self.stored_columns().await?;
        let names: Vec<String> = stored
            .into_iter()
            .filter(|column| column.is_everywhere)
            .map(|column| column.name)
            .collect();
        if names.is_empty() {
            return Ok(PastRows::Filled);
        }
        if let Some(failure) = self.rewriting().await? {
            return Ok(PastRows::Busy { failure });
        }
        let parts = self.parts_with(&names).await?;
        let Some((month, lacking)) = newest_lacking(&parts, &names) else {
            return Ok(PastRows::Filled);
        };
        self.execute_on_hosts(&self.statement_to_fill(month, &lacking))
            .await?;
        Ok(PastRows::Begun(month))
    }

    /// Returns the last failure of rewriting parts of events, which may be empty; `None` if none is
    /// rewritten.
    async fn rewriting(&self) -> Result<Option<String>, QueryError> {
        let sql = format!(
            "SELECT count() AS unfinished, max(latest_fail_reason) AS failure FROM {mutations} \
             WHERE {events} AND NOT is_done AND NOT is_killed",
            mutations = self.on_every_host("mutations"),
            events = self.is_of_events(),
        );
        let nonce = Nonce::new();
        let answer = self.proving().query_raw(&nonce.put_into(&sql)).fetch_one();
        let (answered, unfinished, failure): (String, u64, String) =
            self.within_deadline(answer).await?;
        nonce.check(&answered)?;
        Ok((unfinished > 0).then_some(failure))
    }

    async fn parts_with(&self, names: &[String]) -> Result<Parts, QueryError> {
        let names: Vec<String> = names.iter().map(|name| quoted_text(name)).collect();
        let sql = format!(
            "SELECT groupArray(month) AS months, groupArray(column) AS columns, \
             groupArray(parts) AS counts FROM (\
             SELECT toUInt32OrZero(partition) AS month, column, count() AS parts \
             FROM {parts_columns} WHERE {events} AND active \
             AND column IN ('{OF_EVERY_TABLE}', {names}) GROUP BY month, column)",
            parts_columns = self.on_every_host("parts_columns"),
            events = self.is_of_events(),
            names = names.join(", "),
        );
        let nonce = Nonce::new();
        let answer = self.proving().query_raw(&nonce.put_into(&sql)).fetch_one();
        let parts: Parts = self.within_deadline(answer).await?;
        nonce.check(&parts.nonce)?;
        Ok(parts)
    }

    /// Condition on the table that has the rows of events.
    fn is_of_events(&self) -> String {
        format!(
            "database = {} AND table = {}",
            quoted_text(&self.settings.database),
            quoted_text(&self.local_name(Table::Events.name())),
        )
    }

    fn statement_to_fill(&self, month: Month, names: &[&String]) -> String {
        let columns = names.iter().map(|name| {
            let name = quoted_name(name);
            format!("MATERIALIZE COLUMN {name} IN PARTITION {}", month.0)
        });
        format!(
            "ALTER TABLE {database}.{table}{on_cluster} {columns} SETTINGS mutations_sync = 0",
            database = quoted_name(&self.settings.database),
            table = quoted_name(&self.local_name(Table::Events.name())),
            on_cluster = self.on_cluster(),
            columns = columns.collect::<Vec<_>>().join(", "),
        )
    }
}

/// Newest month of which a part lacks columns, with the names of these.
fn newest_lacking<'a>(parts: &Parts, names: &'a [String]) -> Option<(Month, Vec<&'a String>)> {
    let mut months: BTreeMap<u32, BTreeMap<&str, u64>> = BTreeMap::new();
    let columns = parts.columns.iter().zip(&parts.counts);
    for (month, (column, count)) in parts.months.iter().zip(columns) {
        months.entry(*month).or_default().insert(column, *count);
    }
    months.into_iter().rev().find_map(|(month, counts)| {
        let count = |name: &str| counts.get(name).copied().unwrap_or_default();
        let all = count(OF_EVERY_TABLE);
        let lacking = names.iter().filter(|name| count(name) < all);
        let lacking: Vec<&String> = lacking.collect();
        (!lacking.is_empty()).then_some((Month(month), lacking))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Replication, Settings};

    /// Month, column, and number of parts with it.
    type Count<'a> = (u32, &'a str, u64);
    /// Month with the columns that a part lacks.
    type Lacking<'a> = (u32, &'a [&'a str]);

    fn parts(counts: &[Count<'_>]) -> Parts {
        Parts {
            nonce: String::new(),
            months: counts.iter().map(|row| row.0).collect(),
            columns: counts.iter().map(|row| row.1.to_owned()).collect(),
            counts: counts.iter().map(|row| row.2).collect(),
        }
    }

    #[test]
    fn the_newest_month_with_a_part_that_lacks_columns_is_filled_first() {
        let names = ["property_1".to_owned(), "property_2".to_owned()];
        let of_october = [
            (202_610, "uuid", 9),
            (202_610, "property_1", 8),
            (202_610, "property_2", 9),
        ];
        let of_november = [(202_611, "property_1", 2), (202_611, "uuid", 2)];
        let table: [(Vec<Count>, Option<Lacking>); 4] = [
            (vec![], None),
            (of_october.to_vec(), Some((202_610, &["property_1"]))),
            (
                [of_october.as_slice(), &of_november].concat(),
                Some((202_611, &["property_2"])),
            ),
            (of_october[2..].to_vec(), None),
        ];
        for (counts, expected) in table {
            let parts = parts(&counts);
            let found = newest_lacking(&parts, &names);
            let found = found.map(|(month, names)| {
                let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
                (month.0, names)
            });
            let expected = expected.map(|(month, names)| (month, names.to_vec()));
            assert_eq!(found, expected, "{counts:?}");
        }
    }

    #[test]
    fn a_month_is_filled_by_one_statement_on_all_shards() {
        let clickhouse = ClickHouse::new(&Settings {
            cluster: Some("main".to_owned()),
            replication: Replication::Keeper,
            ..Settings::new("http://h", "u", "p")
        });
        let names = ["property_1".to_owned(), "property_2".to_owned()];
        let names: Vec<&String> = names.iter().collect();
        let expected = "ALTER TABLE `millrace`.`events_local` ON CLUSTER 'main' \
             MATERIALIZE COLUMN `property_1` IN PARTITION 202611, \
             MATERIALIZE COLUMN `property_2` IN PARTITION 202611 SETTINGS mutations_sync = 0";
        assert_eq!(
            clickhouse.statement_to_fill(Month(202_611), &names),
            expected
        );
    }
}
