//! Who is asking, and what their key allows.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Access, Operation};
use crate::request::throttle::Throttle;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use millrace_catalog::{Caller, Catalog, Feature, Level, Need, Organization};
use std::net::IpAddr;

/// Finds the caller. Wrong keys count against the address they come from; right ones are served
/// however many wrong ones came before.
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
    if let Some(caller) = catalog.authenticate(key).await? {
        return Ok(caller);
    }
    throttle.wrong_key(from).map_err(ApiError::throttled)?;
    Err(ApiError::authentication_failed())
}

/// Whether the request names a caller at all.
pub(crate) fn is_presented(headers: &HeaderMap) -> bool {
    headers.contains_key(AUTHORIZATION)
}

/// Checks the key's scope: any one of `needs` will do, and none is needed if there are none.
///
/// # Errors
///
/// 403, naming what is missing.
pub(crate) fn check_scopes(caller: &Caller, needs: &[Need]) -> Result<(), ApiError> {
    if needs.is_empty() || needs.iter().any(|need| caller.scopes.allow(*need)) {
        return Ok(());
    }
    let scopes: Vec<String> = needs.iter().map(scope_name).collect();
    Err(ApiError::missing_scope(&scopes.join(" or ")))
}

/// Checks what an operation asks for beside scopes: a level, a feature, the operator.
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
        Some(feature) => must_have(&organization.organization, feature),
        None => Ok(()),
    }
}

/// Lets organizations pass that have a feature.
///
/// # Errors
///
/// 403 `payment_required` where an operator took it away.
pub(crate) fn must_have(organization: &Organization, feature: Feature) -> Result<(), ApiError> {
    if organization.has_feature(feature) {
        return Ok(());
    }
    Err(ApiError::feature_missing(feature.key))
}

/// The key of `Authorization: Bearer <key>`; the scheme in any case.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.trim().split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

/// As it is written in a key: `organization:read`.
pub(crate) fn scope_name(need: &Need) -> String {
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
