//! Replicas of a cluster that must have an insert before it counts as stored, and reads that see what does.
//!
//! Without a quorum an insert is answered by the one replica that took it: should its disk die before
//! another one fetched the part, the rows are gone, and a read of another replica may not see them yet.

use crate::Settings;
use std::fmt;
use std::str::FromStr;

/// The fewest replicas that are more than the one which takes an insert.
const REPLICAS_MIN: u32 = 2;

/// Replicas that must have an insert before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertQuorum {
    /// More than half of them.
    Majority,
    /// So many.
    Replicas(u32),
}

/// Reason why a text names no quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give `auto` for more than half of the replicas, or their number, from {REPLICAS_MIN} on")]
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

impl Settings {
    /// ClickHouse's settings of an insert.
    pub(crate) fn quorum_of_inserts(&self) -> Vec<(&'static str, String)> {
        let Some(quorum) = self.insert_quorum else {
            return Vec::new();
        };
        // Below our own deadline, after which the server would go on waiting without us.
        let timeout = self.insert_timeout / 2;
        vec![
            ("insert_quorum", quorum.to_string()),
            // Sequential reads know of inserts that came one after the other, and of no others.
            ("insert_quorum_parallel", "0".to_owned()),
            ("insert_quorum_timeout", timeout.as_millis().to_string()),
        ]
    }

    /// ClickHouse's settings of a read that must see all that was stored: a replica that has not got it
    /// yet refuses.
    pub(crate) fn quorum_of_reads(&self) -> Option<(&'static str, &'static str)> {
        let has_quorum = self.insert_quorum.is_some();
        has_quorum.then_some(("select_sequential_consistency", "1"))
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
