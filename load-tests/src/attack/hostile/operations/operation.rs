//! An operation of the API.

use serde_json::Value;

/// Paths whose changes would end the attack: they take away its keys, its project or its
/// organization.
const SPARED: [&str; 5] = [
    "/api/organizations/{organization_id}/",
    "/api/organizations/{organization_id}/projects/{project_id}/",
    "/api/organizations/{organization_id}/projects/{project_id}/reset_token/",
    "/api/personal_api_keys/{id}/",
    "/api/personal_api_keys/{id}/roll/",
];

/// Path whose response has no end, which a request would wait for.
const ENDLESS: &str = "/api/projects/{project_id}/live/";
/// Beginnings of paths, each of which says whose records the rest of the path means.
const OWNERS: [&str; 3] = [
    "/api/organizations/{organization_id}/",
    "/api/projects/{project_id}/",
    "/api/personal_api_keys/",
];

/// An operation of the API's document.
#[derive(Debug)]
pub(in crate::attack::hostile) struct Operation {
    pub(in crate::attack::hostile) method: String,
    pub(in crate::attack::hostile) path: String,
    /// Schema of the request body; null if there is none.
    pub(super) body: Value,
    /// Names and schemas of the query parameters.
    pub(in crate::attack::hostile) parameters: Vec<(String, Value)>,
    /// Seconds within which the document promises a response; 0 if it promises none.
    pub(super) seconds_max: f64,
}

impl Operation {
    /// Method and path template.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Returns true for an operation that would end the attack if its own organization got it, or
    /// that would never end.
    pub(in crate::attack::hostile) fn is_spared(&self) -> bool {
        self.path == ENDLESS || (self.method != "GET" && SPARED.contains(&self.path.as_str()))
    }

    /// Returns true if the path names an organization or a project, which have one owner.
    pub(super) fn has_owner(&self) -> bool {
        let owned = ["{organization_id}", "{project_id}"];
        owned.iter().any(|part| self.path.contains(part))
    }

    /// Returns true if the path names a record beside its organization or project, or a key of a
    /// user. The token of an invitation is none: whoever has it may use it.
    pub(super) fn names_record(&self) -> bool {
        let rest = OWNERS.iter().find_map(|it| self.path.strip_prefix(it));
        rest.is_some_and(|rest| rest.contains('{'))
    }
}
