//! The columns of `events`, those of an insert target, and those of a block.

use millrace_rows::Table;

/// A column of `events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Uuid,
    Event,
    Properties,
    Timestamp,
    TeamId,
    DistinctId,
    CreatedAt,
    HistoricalMigration,
}

/// Column of a block: one of the insert target, or a property column by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockColumn {
    Row(Column),
    Property(usize),
}

impl Column {
    const ALL: [Self; 8] = [
        Self::Uuid,
        Self::Event,
        Self::Properties,
        Self::Timestamp,
        Self::TeamId,
        Self::DistinctId,
        Self::CreatedAt,
        Self::HistoricalMigration,
    ];
    /// Columns that the table is sorted by.
    const OF_KEY: [Self; 5] = [
        Self::TeamId,
        Self::Timestamp,
        Self::Event,
        Self::DistinctId,
        Self::Uuid,
    ];

    /// The columns of an insert target, in its order; `None` if it is not of `events`, or a column
    /// is not known, is there twice, or is missing although the table is sorted by it.
    pub(crate) fn list(insert_target: &str) -> Option<Vec<Self>> {
        let table = Table::of_insert_target(insert_target)?;
        let (_, names) = insert_target.split_once('(')?;
        let names = names.trim_end().strip_suffix(')')?.split(',');
        let named = |name: &str| {
            let name = name.trim().trim_matches('`');
            Self::ALL.into_iter().find(|column| column.name() == name)
        };
        let list: Vec<Self> = names.map(named).collect::<Option<_>>()?;
        let is_single = |column: &Self| list.iter().filter(|it| *it == column).count() == 1;
        let is_usable = table == Table::Events
            && list.iter().all(is_single)
            && Self::OF_KEY.iter().all(|column| list.contains(column));
        is_usable.then_some(list)
    }

    /// Name of the column.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uuid => "uuid",
            Self::Event => "event",
            Self::Properties => "properties",
            Self::Timestamp => "timestamp",
            Self::TeamId => "team_id",
            Self::DistinctId => "distinct_id",
            Self::CreatedAt => "created_at",
            Self::HistoricalMigration => "historical_migration",
        }
    }

    /// Type of the column in the table. The server would convert another one.
    pub(crate) const fn type_name(self) -> &'static str {
        match self {
            Self::Uuid => "UUID",
            Self::Event => "LowCardinality(String)",
            Self::Properties | Self::DistinctId => "String",
            Self::Timestamp | Self::CreatedAt => "DateTime64(6, 'UTC')",
            Self::TeamId => "Int64",
            Self::HistoricalMigration => "Bool",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_from_the_insert_target_if_all_are_known_and_the_key_is_whole() {
        let list = Column::list(Table::Events.insert_target());
        assert_eq!(list.as_deref(), Some(&Column::ALL[..]));
        let table = [
            ("events(`uuid`, event,timestamp,team_id,distinct_id)", 5),
            ("events(uuid,event,timestamp,team_id)", 0),
            ("events(uuid,event,timestamp,team_id,distinct_id,colour)", 0),
            ("events(uuid,uuid,event,timestamp,team_id,distinct_id)", 0),
            ("events(uuid,event,timestamp,team_id,distinct_id", 0),
            ("events()", 0),
            ("events", 0),
            ("sessions(uuid,event,timestamp,team_id,distinct_id)", 0),
            (Table::RejectedEvents.insert_target(), 0),
            (Table::PersonUpdates.insert_target(), 0),
        ];
        for (target, columns) in table {
            let list = Column::list(target);
            assert_eq!(list.map_or(0, |list| list.len()), columns, "{target}");
        }
    }
}
