//! Ids of operations in the document, and so in generated clients.

use crate::operation::Operation;
use http::Method;

/// Unique id of an operation: the static parts of its path and the kind of operation, as in
/// `organizations_roles_partial_update`.
pub(crate) fn operation_id(operation: &Operation) -> String {
    let place = parts(operation.path).collect::<Vec<_>>().join("_");
    let verb = match operation.method {
        _ if operation.is_action => return place,
        Method::GET if operation.is_list => "list",
        Method::GET => "retrieve",
        Method::POST => "create",
        Method::PATCH => "partial_update",
        Method::PUT => "update",
        Method::DELETE => "destroy",
        _ => return place,
    };
    format!("{place}_{verb}")
}

/// Static parts of a path below `/api/`.
pub(super) fn parts(path: &'static str) -> impl Iterator<Item = &'static str> {
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && !part.starts_with('{'));
    parts.skip(1)
}
