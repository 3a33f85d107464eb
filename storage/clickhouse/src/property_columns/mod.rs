//! Property columns of `events`: those that are asked for are added, others are removed.
//!
//! | Module | Holds |
//! |---|---|
//! | `definition` | a column in SQL, and its comment, by which it is known |
//! | `stored` | the columns that ClickHouse has |
//! | `past` | [`PastRows`]: values of parts from before a column |
//! | `sample` | properties that may be worth a column |
//!
//! On shards a column is added to the tables of all shards first, and removed from them last: what
//! is inserted over all of them names no column that one lacks. Views of projects name the columns
//! that they show, so they are made anew before a column goes, and after one came.

mod definition;
mod past;
mod sample;
mod stored;

pub use past::PastRows;
pub use sample::{QueriedProperty, SampledProperty};
pub(crate) use stored::StoredColumn;

use crate::settings::quoted_name;
use crate::{ClickHouse, ProjectViews, QueryError};
use definition::{comment, definition};
use millrace_rows::{PropertyColumn, Table};

/// Difference between the columns that are there and those that are asked for.
#[derive(Debug, Default)]
struct Difference<'a> {
    /// Names of columns to remove.
    surplus: Vec<String>,
    /// Columns to add, or to add on some hosts.
    missing: Vec<&'a PropertyColumn>,
    /// Columns that are neither.
    kept: Vec<StoredColumn>,
}

impl ClickHouse {
    /// Makes the property columns of `events` those that are asked for, and has the views of
    /// projects show them. Returns true if anything was changed. Safe to repeat, but not by two
    /// processes at once.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses; some columns may be there then, and others not.
    pub async fn sync_property_columns(
        &self,
        wanted: &[PropertyColumn],
        views: &ProjectViews<'_>,
    ) -> Result<bool, QueryError> {
        let stored = self.stored_columns().await?;
        let Difference {
            surplus,
            missing,
            kept,
        } = difference(stored, wanted);
        if !surplus.is_empty() {
            self.refresh_event_view(views, &kept).await?;
            for sql in self.statements_to_remove(&surplus) {
                self.execute_on_hosts(&sql).await?;
            }
        }
        for sql in self.statements_to_add(&missing) {
            self.execute_on_hosts(&sql).await?;
        }
        let stored = self.stored_columns().await?;
        let refreshed = self.refresh_event_view(views, &stored).await?;
        Ok(refreshed || !surplus.is_empty() || !missing.is_empty())
    }

    /// Statements that add columns, in their order.
    fn statements_to_add(&self, columns: &[&PropertyColumn]) -> Vec<String> {
        if columns.is_empty() {
            return Vec::new();
        }
        let added = columns
            .iter()
            .map(|column| format!("ADD COLUMN IF NOT EXISTS {}", definition(column)));
        let added = added.collect::<Vec<_>>().join(", ");
        let mut statements = self.alter_events(&added);
        statements.reverse();
        statements
    }

    /// Statements that remove columns, in their order.
    fn statements_to_remove(&self, names: &[String]) -> Vec<String> {
        let removed = names
            .iter()
            .map(|name| format!("DROP COLUMN IF EXISTS {}", quoted_name(name)));
        self.alter_events(&removed.collect::<Vec<_>>().join(", "))
    }

    /// Statements that change `events`: over all shards, if there are some, and of each.
    fn alter_events(&self, change: &str) -> Vec<String> {
        let (database, on_cluster) = (quoted_name(&self.settings.database), self.on_cluster());
        let mut tables = vec![Table::Events.name().to_owned()];
        if self.is_sharded() {
            tables.push(self.local_name(Table::Events.name()));
        }
        let tables = tables.iter().map(|table| quoted_name(table));
        tables
            .map(|table| format!("ALTER TABLE {database}.{table}{on_cluster} {change}"))
            .collect()
    }
}

/// Compares the columns that are there with those that are asked for.
fn difference(stored: Vec<StoredColumn>, wanted: &[PropertyColumn]) -> Difference<'_> {
    let mut difference = Difference::default();
    let is_stored = |column: &&PropertyColumn| {
        stored
            .iter()
            .any(|it| it.is_everywhere && it.is(&column.name(), &comment(column)))
    };
    difference.missing = wanted.iter().filter(|column| !is_stored(column)).collect();
    for column in stored {
        let is_wanted = wanted.iter().any(|it| column.is(&it.name(), &comment(it)));
        match is_wanted {
            true => difference.kept.push(column),
            false => difference.surplus.push(column.name),
        }
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Replication, Settings};
    use millrace_rows::{ProjectId, PropertyType};

    fn column(number: i64, key: &str) -> PropertyColumn {
        PropertyColumn {
            number,
            team_id: Some(ProjectId(1)),
            path: vec![key.to_owned()],
            kind: PropertyType::Bool,
            bytes_max: 0,
        }
    }

    fn stored(of: &PropertyColumn, is_everywhere: bool) -> StoredColumn {
        StoredColumn {
            name: of.name(),
            comment: comment(of),
            is_dictionary: false,
            is_everywhere,
        }
    }

    fn clickhouse(cluster: Option<&str>, replication: Replication) -> ClickHouse {
        ClickHouse::new(&Settings {
            cluster: cluster.map(str::to_owned),
            replication,
            ..Settings::new("http://h", "u", "p")
        })
    }

    #[test]
    fn columns_of_another_definition_are_removed_and_those_of_some_hosts_added() {
        let wanted = [
            column(1, "a"),
            column(2, "b"),
            column(3, "c"),
            column(4, "d"),
        ];
        let there = vec![
            stored(&wanted[0], true),
            stored(&wanted[1], false),
            // A restored catalog has counted anew.
            stored(&column(3, "another"), true),
            stored(&column(9, "gone"), true),
        ];
        let difference = difference(there, &wanted);
        assert_eq!(difference.surplus, ["property_3", "property_9"]);
        let missing: Vec<i64> = difference.missing.iter().map(|it| it.number).collect();
        assert_eq!(missing, [2, 3, 4]);
        let kept: Vec<&str> = difference.kept.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(kept, ["property_1", "property_2"]);
    }

    #[test]
    fn shards_have_a_column_before_the_table_over_them_and_lose_it_afterwards() {
        let (events, local) = ("`millrace`.`events`", "`millrace`.`events_local`");
        let main = Some("main");
        for (cluster, replication, on_cluster, tables) in [
            (None, Replication::Keeper, "", vec![events]),
            (
                main,
                Replication::Keeper,
                " ON CLUSTER 'main'",
                vec![local, events],
            ),
            (main, Replication::Database, "", vec![local, events]),
            (main, Replication::None, "", vec![local, events]),
            (Some("default"), Replication::Cloud, "", vec![events]),
        ] {
            let clickhouse = clickhouse(cluster, replication);
            let column = column(7, "a");
            let added = clickhouse.statements_to_add(&[&column]);
            let begun = |table: &&str| {
                format!("ALTER TABLE {table}{on_cluster} ADD COLUMN IF NOT EXISTS `property_7` ")
            };
            let starts: Vec<String> = tables.iter().map(begun).collect();
            assert_eq!(added.len(), starts.len(), "{replication}");
            for (sql, start) in added.iter().zip(&starts) {
                assert!(sql.starts_with(start), "{replication}: {sql}");
            }
            let removed = clickhouse.statements_to_remove(&[column.name()]);
            let expected = tables.iter().rev().map(|table| {
                format!("ALTER TABLE {table}{on_cluster} DROP COLUMN IF EXISTS `property_7`")
            });
            assert_eq!(removed, expected.collect::<Vec<_>>(), "{replication}");
        }
        let nothing = clickhouse(None, Replication::Keeper).statements_to_add(&[]);
        assert!(nothing.is_empty());
    }
}
