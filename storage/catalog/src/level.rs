//! What a member may do in an organization.

use sea_orm::{DeriveActiveEnum, EnumIter};

/// The level of a membership; each includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "i16", db_type = "SmallInteger")]
pub enum Level {
    /// Reads, and writes what members may.
    Member = 1,
    /// Changes the organization's settings and people.
    Administrator = 8,
    /// May delete the organization.
    Owner = 15,
}

impl Level {
    /// The number that the API and the tables use.
    #[must_use]
    pub const fn number(self) -> i16 {
        self as i16
    }
}
