//! Insert quorums: replicas of a cluster that must have an insert before it counts as stored, and
//! reads that see such inserts.
//!
//! Without a quorum an insert is answered by the one replica that took it: if its disk dies before
//! another one fetched the part, the rows are lost, and a read of another replica may not see them
//! yet.

use std::fmt;
use std::str::FromStr;

/// Smallest quorum: the replica that takes an insert, and another one.
const REPLICAS_MIN: u32 = 2;

/// Replicas that must have an insert before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertQuorum {
    /// More than half of the replicas.
    Majority,
    /// A number of replicas.
    Replicas(u32),
}

/// Reason why a text names no quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "give `auto` for more than half of the replicas, or their number from {REPLICAS_MIN} on, such as 2"
)]
pub struct QuorumError;

impl FromStr for InsertQuorum {
    type Err = QuorumError;

    fn from_str(text: &str) -> Result<Self, QuorumError> {
        if text == "auto" {
            return Ok(Self::Majority);
        }
        let replicas = text.parse().map_err(|_| QuorumError)?;
        match replicas {
            REPLICAS_MIN.. => Ok(Self::Replicas(replicas)),
            _ => Err(QuorumError),
        }
    }
}

impl fmt::Display for InsertQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Majority => f.write_str("auto"),
            Self::Replicas(replicas) => write!(f, "{replicas}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_more_than_half_or_a_number_above_one() {
        let table = [
            ("auto", Ok(InsertQuorum::Majority)),
            ("2", Ok(InsertQuorum::Replicas(2))),
            ("17", Ok(InsertQuorum::Replicas(17))),
            ("1", Err(QuorumError)),
            ("0", Err(QuorumError)),
            ("-2", Err(QuorumError)),
            ("", Err(QuorumError)),
            ("majority", Err(QuorumError)),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse(), expected, "{text:?}");
            if let Ok(quorum) = expected {
                assert_eq!(quorum.to_string(), text);
            }
        }
    }
}
