//! Authentication by personal key or session, and checks of what the caller may.

use crate::context::{Context, Request};
use crate::error::ApiError;
use crate::operation::{Access, Operation};
use crate::request::session_cookie;
use crate::request::throttle::Throttle;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use millrace_catalog::{Catalog, CatalogError, Feature, Level, Organization, RequiredScope};
use millrace_organizations::{Caller, PersonalKeys, Sessions};

/// Credential that a request presents.
#[derive(Clone, Copy)]
enum Presented<'a> {
    /// Personal key, in the header `Authorization`.
    Key(&'a str),
    /// Token of a session, in a cookie.
    Session(&'a str),
}

impl<'a> Presented<'a> {
    /// Credential of a request, whether it works or not. A key counts before a cookie, which
    /// browsers send by themselves.
    fn of(request: &'a Request) -> Option<Self> {
        let key = bearer(&request.headers).map(Self::Key);
        key.or_else(|| session_cookie::token(request).map(Self::Session))
    }

    async fn caller(self, catalog: &Catalog) -> Result<Option<Caller>, CatalogError> {
        match self {
            Self::Key(key) => PersonalKeys::new(catalog).authenticate(key).await,
            Self::Session(token) => Sessions::new(catalog).authenticate(token).await,
        }
    }
}

/// Authenticates the caller by the key or the session of the request. Wrong ones count against the
/// address they come from; right ones are served however many wrong ones came before. `None` for an
/// operation that is open to all without a key, and without a session or with one that has ended:
/// browsers send its cookie nevertheless.
///
/// # Errors
///
/// 401 without a working key or session, 429 after too many wrong ones, 503 if the catalog does not
/// answer.
pub(crate) async fn authenticate(
    catalog: &Catalog,
    request: &Request,
    throttle: &Throttle,
    is_open: bool,
) -> Result<Option<Caller>, ApiError> {
    let Some(presented) = Presented::of(request) else {
        return match is_open && !request.headers.contains_key(AUTHORIZATION) {
            true => Ok(None),
            false => Err(ApiError::not_authenticated()),
        };
    };
    let caller = presented.caller(catalog).await?;
    let ended = match presented {
        _ if caller.is_some() => return Ok(caller),
        Presented::Session(_) if is_open => return Ok(None),
        Presented::Session(_) => ApiError::session_ended(),
        Presented::Key(_) => ApiError::authentication_failed(),
    };
    let counted = throttle.wrong_key(request.address);
    counted.map_err(ApiError::throttled)?;
    Err(ended)
}

/// Caller of a request, looked up again without any limit; `None` if the key or the session does
/// not work any more.
///
/// # Errors
///
/// Any database error.
pub(crate) async fn caller_of(
    catalog: &Catalog,
    request: &Request,
) -> Result<Option<Caller>, CatalogError> {
    match Presented::of(request) {
        Some(presented) => presented.caller(catalog).await,
        None => Ok(None),
    }
}

/// Checks the key's scopes: one of `needs` is enough, and none is required if `needs` is empty.
///
/// # Errors
///
/// 403, naming what is missing.
pub(crate) fn check_scopes(caller: &Caller, needs: &[RequiredScope]) -> Result<(), ApiError> {
    if needs.is_empty() || needs.iter().any(|need| caller.scopes.allow(*need)) {
        return Ok(());
    }
    let scopes: Vec<String> = needs.iter().map(scope_name).collect();
    Err(ApiError::missing_scope(&scopes.join(" or ")))
}

/// Checks what an operation requires beside scopes: a level, a feature, the operator.
///
/// # Errors
///
/// 403, naming what is missing.
pub(crate) fn check_access(operation: &Operation, context: &Context) -> Result<(), ApiError> {
    if operation.access == Access::Operator {
        let operates = context.caller()?.scopes.operate();
        return if operates {
            Ok(())
        } else {
            Err(ApiError::missing_scope(millrace_catalog::OPERATOR))
        };
    }
    let Some(organization) = context.organization.as_deref() else {
        return Ok(());
    };
    let needed = match operation.access {
        Access::Level(level) => level,
        Access::Pipelines if !organization.organization.members_can_write_pipelines => {
            Level::Administrator
        }
        _ => Level::Member,
    };
    if organization.level < Some(needed) {
        let detail = match needed {
            Level::Owner => "Only an owner of the organization may do this.",
            _ => "Only administrators and owners of the organization may do this.",
        };
        return Err(ApiError::forbidden(detail));
    }
    match operation.feature {
        Some(feature) => require_feature(&organization.organization, feature),
        None => Ok(()),
    }
}

/// Checks that the organization has a feature.
///
/// # Errors
///
/// 403 `payment_required` where an operator took it away.
pub(crate) fn require_feature(
    organization: &Organization,
    feature: Feature,
) -> Result<(), ApiError> {
    if organization.has_feature(feature) {
        return Ok(());
    }
    Err(ApiError::feature_missing(feature.key))
}

/// Key of the header `Authorization: Bearer <key>`; the scheme in any case.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.trim().split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

/// Name of a scope as keys have it: `organization:read`.
pub(crate) fn scope_name(need: &RequiredScope) -> String {
    let action = if need.write { "write" } else { "read" };
    format!("{}:{action}", need.family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        let table = [
            ("Bearer phx_a", Some("phx_a")),
            ("bearer  phx_a ", Some("phx_a")),
            ("BEARER phx_a", Some("phx_a")),
            ("Basic phx_a", None),
            ("phx_a", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("", None),
        ];
        for (value, key) in table {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            assert_eq!(bearer(&headers), key, "{value:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
