//! Organizations and records that an operation is sent to, and the operations that each may get.

use super::Operation;

/// Owner of the records that a request names, and the organization in its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The hostile tenant's records in its own organization: any response but an error of the
    /// server.
    Own,
    /// The good tenant's records in its own organization: nothing may be changed or shown.
    Foreign,
    /// The good tenant's records in the hostile one's organization: nothing may be changed or
    /// shown.
    Smuggled,
}

/// An operation with its aim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) operation: &'a Operation,
    pub(super) aim: Aim,
}

impl Aim {
    /// Name of the attempts in a report.
    pub(super) const fn attempts(self) -> &'static str {
        match self {
            Self::Own => "operations on the own organization",
            Self::Foreign => "operations on another organization",
            Self::Smuggled => "operations on things of another organization",
        }
    }
}

impl Target<'_> {
    /// Name in the list of attempts.
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.operation.name(), self.aim.attempts())
    }
}

/// All operations with each aim that they can have. Those that would end the attack are sent to
/// another organization only, which must refuse them.
pub(super) fn targets(operations: &[Operation]) -> Vec<Target<'_>> {
    let mut targets = Vec::new();
    for operation in operations {
        let aims = [
            (Aim::Own, !operation.is_spared()),
            (Aim::Foreign, operation.has_owner()),
            (Aim::Smuggled, operation.names_record()),
        ];
        let possible = aims.into_iter().filter(|(_, is_possible)| *is_possible);
        targets.extend(possible.map(|(aim, _)| Target { operation, aim }));
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::hostile::operations::operations;
    use serde_json::json;

    #[test]
    fn what_would_end_the_attack_is_sent_to_another_organization_only() {
        let methods = json!({"delete": {}, "get": {}});
        let document = json!({"paths": {
            "/api/organizations/": methods,
            "/api/organizations/{organization_id}/": methods,
            "/api/organizations/{organization_id}/projects/{project_id}/": methods,
            "/api/organizations/{organization_id}/roles/{id}/": methods,
            "/api/personal_api_keys/{id}/": methods,
        }});
        let operations = operations(&document);
        let targets = targets(&operations);
        let aims = |method: &str, path: &str| {
            let of_it = targets
                .iter()
                .filter(|it| it.operation.method == method && it.operation.path == path);
            of_it.map(|it| it.aim).collect::<Vec<_>>()
        };
        let (own, foreign, smuggled) = (Aim::Own, Aim::Foreign, Aim::Smuggled);
        for (path, of_delete, of_get) in [
            ("/api/organizations/", vec![own], vec![own]),
            (
                "/api/organizations/{organization_id}/",
                vec![foreign],
                vec![own, foreign],
            ),
            (
                "/api/organizations/{organization_id}/projects/{project_id}/",
                vec![foreign, smuggled],
                vec![own, foreign, smuggled],
            ),
            (
                "/api/organizations/{organization_id}/roles/{id}/",
                vec![own, foreign, smuggled],
                vec![own, foreign, smuggled],
            ),
            ("/api/personal_api_keys/{id}/", vec![], vec![own]),
        ] {
            assert_eq!(aims("DELETE", path), of_delete, "{path}");
            assert_eq!(aims("GET", path), of_get, "{path}");
        }
        let names: std::collections::BTreeSet<_> = targets.iter().map(Target::name).collect();
        assert_eq!(names.len(), targets.len());
    }
}
