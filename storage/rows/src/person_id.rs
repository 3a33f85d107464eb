//! The id of a person whom nobody has merged: it follows from the project and the distinct id, so
//! that most events need no row to say whose they are. ClickHouse computes the same in SQL.

use crate::TeamId;
use uuid::Uuid;

/// The namespace of persons' version 5 uuids: part of what is stored, never to be changed.
pub const PERSON_NAMESPACE: Uuid = Uuid::from_u128(0x6d69_6c6c_7261_6365_8570_6572_736f_6e73);

/// A version 5 uuid over `<team>:<distinct id>`.
#[must_use]
pub fn person_id(team_id: TeamId, distinct_id: &str) -> Uuid {
    Uuid::new_v5(
        &PERSON_NAMESPACE,
        format!("{team_id}:{distinct_id}").as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_person_never_changes() {
        let id = person_id(TeamId(1), "somebody");
        assert_eq!(id.to_string(), "a02ab54a-e7d0-5624-b888-b4db072eff49");
        assert_ne!(id, person_id(TeamId(2), "somebody"));
        assert_ne!(id, person_id(TeamId(1), "somebody else"));
    }
}
