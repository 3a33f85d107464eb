//! Organizations and records that an operation is sent to, and the operations that each may get.

use super::Operation;
use crate::attack::findings::is_judged;

/// Owner of the records that a request names, and the organization in its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The hostile tenant's records in its own organization: any response but an error of the
    /// server.
    Own,
    /// The good tenant's records in its own organization: nothing may be changed or shown.
    Foreign,
    /// The good tenant's records in the hostile one's organization or project, and keys of the good
    /// tenant's owner: nothing may be changed or shown.
    Smuggled,
}

/// Statuses by which an operation on another organization is refused.
pub(super) const REFUSALS: [u16; 2] = [403, 404];

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

    /// Group of the attempts that a complete run must have made. Those on another organization
    /// count when they were refused, and not when their body was.
    pub(super) const fn group(self) -> &'static str {
        match self {
            Self::Own => "operations processed on the own organization",
            Self::Foreign => "operations refused on another organization",
            Self::Smuggled => "operations refused on things of another organization",
        }
    }

    /// Returns true if a response with this status proves what an attempt was made for, if the
    /// records that it named existed.
    pub(super) fn is_proved(self, status: u16, is_there: bool) -> bool {
        match self {
            Self::Own => is_judged(status),
            Self::Foreign | Self::Smuggled => is_there && REFUSALS.contains(&status),
        }
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
            "/api/projects/{project_id}/query/": methods,
            "/api/projects/{project_id}/query/{query_id}/": methods,
            "/api/signup/{token}/": methods,
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
            (
                "/api/personal_api_keys/{id}/",
                vec![smuggled],
                vec![own, smuggled],
            ),
            (
                "/api/projects/{project_id}/query/",
                vec![own, foreign],
                vec![own, foreign],
            ),
            (
                "/api/projects/{project_id}/query/{query_id}/",
                vec![own, foreign, smuggled],
                vec![own, foreign, smuggled],
            ),
            ("/api/signup/{token}/", vec![own], vec![own]),
        ] {
            assert_eq!(aims("DELETE", path), of_delete, "{path}");
            assert_eq!(aims("GET", path), of_get, "{path}");
        }
        let names: std::collections::BTreeSet<_> = targets
            .iter()
            .map(|target| (target.aim.group(), target.operation.name()))
            .collect();
        assert_eq!(names.len(), targets.len());
    }

    #[test]
    fn a_refusal_counts_if_it_was_for_the_record_and_that_exists() {
        for (status, own, another) in [
            (200, true, false),
            (400, true, false),
            (403, true, true),
            (404, true, true),
            (429, false, false),
            (503, false, false),
            (0, false, false),
        ] {
            assert_eq!(Aim::Own.is_proved(status, false), own, "{status}");
            for aim in [Aim::Foreign, Aim::Smuggled] {
                assert_eq!(aim.is_proved(status, true), another, "{status}");
                assert!(!aim.is_proved(status, false), "{status}");
            }
        }
    }
}
