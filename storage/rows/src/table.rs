//! Tables that rows are stored in.

/// A table that rows are shipped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Accepted events.
    Events,
    /// Rejected events, with the reason, so that they can be sent again.
    RejectedEvents,
    /// Changes of persons and groups by events, for the catalog to apply.
    PersonUpdates,
}

impl Table {
    /// Every table, in the order in which they are created.
    pub const ALL: [Self; 3] = [Self::Events, Self::RejectedEvents, Self::PersonUpdates];

    /// The table's name in the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::RejectedEvents => "rejected_events",
            Self::PersonUpdates => "person_updates",
        }
    }

    /// Insert target, the text after `INSERT INTO`: the table and the columns in the order in which
    /// rows are encoded. The log stores this text with every section, so that rows written before
    /// an upgrade still ship after it. Changing it means a new schema migration.
    #[must_use]
    pub const fn insert_target(self) -> &'static str {
        match self {
            Self::Events => {
                "events(uuid,event,properties,timestamp,team_id,distinct_id,created_at,historical_migration)"
            }
            Self::RejectedEvents => {
                "rejected_events(team_id,received_at,request_id,`index`,code,attr,detail,raw,historical_migration)"
            }
            Self::PersonUpdates => {
                "person_updates(team_id,created_at,request_id,`index`,uuid,timestamp,kind,distinct_id,other_id,\
                 person_set,person_set_once,person_unset,group_type,group_key,group_set)"
            }
        }
    }

    /// The columns that hold a [`crate::RowKey`]: the id and the time of receipt.
    #[must_use]
    pub const fn key_columns(self) -> (&'static str, &'static str) {
        match self {
            Self::Events | Self::PersonUpdates => ("uuid", "created_at"),
            Self::RejectedEvents => ("request_id", "received_at"),
        }
    }

    /// The table of an [insert target](Table::insert_target); `None` for a table that this
    /// version does not know.
    #[must_use]
    pub fn of_insert_target(target: &str) -> Option<Self> {
        let name = target.split('(').next()?;
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_insert_target_names_its_table_and_key_columns() {
        for table in Table::ALL {
            let target = table.insert_target();
            assert_eq!(Table::of_insert_target(target), Some(table));
            let (id, at) = table.key_columns();
            assert!(target.contains(id) && target.contains(at), "{target}");
        }
        assert_eq!(Table::of_insert_target("elsewhere(a)"), None);
    }
}
