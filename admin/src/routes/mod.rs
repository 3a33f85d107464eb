//! One file for each resource.

pub(crate) mod organizations;
pub(crate) mod projects;

use millrace_catalog::{Caller, Catalog, MemberOrganization};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::error::ApiError;

/// The organization of a path, if the caller sees it; `@current` is the oldest membership.
///
/// # Errors
///
/// 404 for foreign, unknown and malformed ids alike.
pub(crate) async fn organization(
    catalog: &Catalog,
    caller: &Caller,
    id: &str,
) -> Result<MemberOrganization, ApiError> {
    let id = if id == "@current" {
        catalog.current_organization_of(caller).await?
    } else {
        Uuid::parse_str(id).ok()
    };
    let id = id.ok_or_else(ApiError::not_found)?;
    let found = catalog.organization_of(caller, id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// ISO 8601 in UTC, microseconds only when there are any.
pub(crate) fn iso8601(at: millrace_catalog::UtcTime) -> String {
    let at: OffsetDateTime = at.to_datetime();
    at.format(&Rfc3339).unwrap_or_default()
}
