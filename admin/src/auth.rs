//! Who is asking.

use crate::error::ApiError;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use millrace_catalog::{Caller, Catalog, Need};

/// Finds the caller and checks the key's scope: any one of `needs` will do.
///
/// # Errors
///
/// 401 without a working key, 403 without the scope, 503 if the catalog does not answer.
pub(crate) async fn authenticate(
    catalog: &Catalog,
    headers: &HeaderMap,
    needs: &[Need],
) -> Result<Caller, ApiError> {
    let key = bearer(headers).ok_or_else(ApiError::not_authenticated)?;
    let caller = catalog.authenticate(key).await?;
    let caller = caller.ok_or_else(ApiError::authentication_failed)?;
    if needs.iter().any(|need| caller.scopes.allow(*need)) {
        return Ok(caller);
    }
    let scopes: Vec<String> = needs.iter().map(scope_name).collect();
    Err(ApiError::missing_scope(&scopes.join(" or ")))
}

/// The key of `Authorization: Bearer <key>`; the scheme in any case.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.trim().split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

fn scope_name(need: &Need) -> String {
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
