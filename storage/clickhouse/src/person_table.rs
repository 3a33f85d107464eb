//! Tables that the catalog's persons and groups are copied to.

/// A table that the catalog's persons and groups are copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonTable {
    /// Persons, also those that were merged into others.
    Persons,
    /// Persons of distinct ids.
    DistinctIds,
    /// Groups.
    Groups,
}

impl PersonTable {
    /// All tables.
    pub const ALL: [Self; 3] = [Self::Persons, Self::DistinctIds, Self::Groups];

    /// The table's name in the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Persons => "persons",
            Self::DistinctIds => "person_distinct_ids",
            Self::Groups => "groups",
        }
    }

    /// The columns in the order in which rows are encoded.
    #[must_use]
    pub const fn columns(self) -> &'static str {
        match self {
            Self::Persons => {
                "team_id, id, created_at, properties, is_identified, is_deleted, version"
            }
            Self::DistinctIds => "team_id, distinct_id, person_id, version",
            Self::Groups => "team_id, group_type, group_key, created_at, properties, version",
        }
    }
}
