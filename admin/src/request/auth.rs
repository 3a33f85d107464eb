//! Authentication by personal key, and checks of what the key allows.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Access, Operation};
use crate::request::throttle::Throttle;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use millrace_catalog::{Catalog, Feature, Level, Organization, RequiredScope};
use millrace_organizations::{Caller, PersonalKeys};
use std::net::IpAddr;

/// Authenticates the caller by the key of the request. Wrong keys count against the address they
/// come from; right ones are served however many wrong ones came before.
///
/// # Errors
///
/// 401 without a working key, 429 after too many wrong ones, 503 if the catalog does not answer.
pub(crate) async fn authenticate(
    catalog: &Catalog,
    headers: &HeaderMap,
    throttle: &Throttle,
    from: IpAddr,
) -> Result<Caller, ApiError> {
    let key = bearer(headers).ok_or_else(ApiError::not_authenticated)?;
    if let Some(caller) = PersonalKeys::new(catalog).authenticate(key).await? {
        return Ok(caller);
    }
    throttle.wrong_key(from).map_err(ApiError::throttled)?;
    Err(ApiError::authentication_failed())
}

/// Returns true if the request presents a key, whether it works or not.
pub(crate) fn is_presented(headers: &HeaderMap) -> bool {
    headers.contains_key(AUTHORIZATION)
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
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
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
