//! Levels of members in an organization.

use sea_orm::{DeriveActiveEnum, EnumIter};
use std::fmt;

/// Level of a membership; each includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "i16", db_type = "SmallInteger")]
pub enum Level {
    /// Reads, and writes where members may.
    Member = 1,
    /// Changes the organization's settings and people.
    Administrator = 8,
    /// Deletes the organization.
    Owner = 15,
}

impl Level {
    /// Level with a number; `None` if there is none.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Member),
            8 => Some(Self::Administrator),
            15 => Some(Self::Owner),
            _ => None,
        }
    }

    /// Number in the API and in tables.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_their_numbers_correspond() {
        let table = [
            (1, Some(Level::Member)),
            (8, Some(Level::Administrator)),
            (15, Some(Level::Owner)),
            (0, None),
            (-1, None),
            (7, None),
            (16, None),
            (i64::MIN, None),
            // 1 if it were cut to 16 bits.
            (65_537, None),
        ];
        for (number, level) in table {
            assert_eq!(Level::of(number), level, "{number}");
            if let Some(level) = level {
                assert_eq!(i64::from(level.number()), number, "{level}");
            }
        }
        assert!(Level::Member < Level::Administrator && Level::Administrator < Level::Owner);
    }
}
