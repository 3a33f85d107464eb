//! Ids of persons that were never merged: they follow from the project and the distinct id, so that
//! most events need no row that assigns them to a person. ClickHouse computes the same in SQL.

use crate::ProjectId;
use uuid::Uuid;

/// Namespace of persons' version 5 uuids: stored ids depend on it, so it must never change.
pub const PERSON_NAMESPACE: Uuid = Uuid::from_u128(0x6d69_6c6c_7261_6365_8570_6572_736f_6e73);

/// Returns a person's id: a version 5 uuid over `<project>:<distinct id>`.
#[must_use]
pub fn person_id(project_id: ProjectId, distinct_id: &str) -> Uuid {
    Uuid::new_v5(
        &PERSON_NAMESPACE,
        format!("{project_id}:{distinct_id}").as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_person_never_changes() {
        let id = person_id(ProjectId(1), "somebody");
        assert_eq!(id.to_string(), "a02ab54a-e7d0-5624-b888-b4db072eff49");
        assert_ne!(id, person_id(ProjectId(2), "somebody"));
        assert_ne!(id, person_id(ProjectId(1), "somebody else"));
    }
}
