//! What a member may do in an organization.

use sea_orm::{DeriveActiveEnum, EnumIter};
use std::fmt;

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
    /// The level of a number; `None` if there is none.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Member),
            8 => Some(Self::Administrator),
            15 => Some(Self::Owner),
            _ => None,
        }
    }

    /// The number that the API and the tables use.
    #[must_use]
    pub const fn number(self) -> i16 {
        self as i16
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Member => "member",
            Self::Administrator => "administrator",
            Self::Owner => "owner",
        })
    }
}
