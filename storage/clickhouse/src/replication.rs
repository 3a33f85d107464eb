//! Replication of a cluster's tables, which decides how they are made and what a token proves.
//!
//! | Value | Tables | Statements that make them go |
//! |---|---|---|
//! | `keeper` | `Replicated…MergeTree` with a path in Keeper | to every host, by `ON CLUSTER` |
//! | `database` | `Replicated…MergeTree` in a database of engine `Replicated`, which chooses the path | to one host |
//! | `none` | plain, one host for each shard | to every address of `clickhouse_url` |
//! | `cloud` | of ClickHouse Cloud, which replicates all | to one address |

use std::fmt;
use std::str::FromStr;

/// Replication of a cluster's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replication {
    /// Tables are replicated within each shard, under paths in Keeper with the macros `{shard}` and
    /// `{replica}`.
    #[default]
    Keeper,
    /// The database itself is replicated and has the paths.
    Database,
    /// Each shard is one host with plain tables.
    None,
    /// ClickHouse Cloud: no shards, and its own storage behind all replicas.
    Cloud,
}

/// Reason why a text names no replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give `keeper`, `database`, `none` or `cloud`")]
pub struct ReplicationError;

impl Replication {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Keeper, Self::Database, Self::None, Self::Cloud];

    const fn name(self) -> &'static str {
        match self {
            Self::Keeper => "keeper",
            Self::Database => "database",
            Self::None => "none",
            Self::Cloud => "cloud",
        }
    }
}

impl FromStr for Replication {
    type Err = ReplicationError;

    fn from_str(text: &str) -> Result<Self, ReplicationError> {
        let mut all = Self::ALL.into_iter();
        all.find(|value| value.name() == text)
            .ok_or(ReplicationError)
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replication_is_named_as_it_is_shown() {
        for value in Replication::ALL {
            assert_eq!(value.to_string().parse(), Ok(value));
        }
        for text in ["", "Keeper", "zookeeper"] {
            assert_eq!(text.parse::<Replication>(), Err(ReplicationError));
        }
    }
}
