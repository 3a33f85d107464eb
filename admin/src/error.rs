//! What a client is told when something is wrong: the same four keys everywhere.
//!
//! [`ApiError`] is the client's message; trouble of ours is logged where it arises and answered
//! without its details.

use http::StatusCode;
use http::{HeaderName, HeaderValue};
use millrace_catalog::CatalogError;
use serde::Serialize;
use std::borrow::Cow;
use warp::reply::Response;
use warp::{Reply, reply};

/// An answer that is not a success.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    /// The family of the error, by status.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What went wrong, for programs.
    code: &'static str,
    /// What went wrong and what to do, for people.
    detail: Cow<'static, str>,
    /// The field, if one is to blame.
    attr: Option<String>,
    /// The header that goes with the status.
    #[serde(skip)]
    header: Option<(&'static str, &'static str)>,
}

impl ApiError {
    fn new(
        status: StatusCode,
        kind: &'static str,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            kind,
            code,
            detail: detail.into(),
            attr: None,
            header: None,
        }
    }

    /// 404, for paths and for ids alike.
    pub(crate) fn not_found() -> Self {
        let detail = "There is nothing at this address, or it is not yours to see.";
        Self::new(
            StatusCode::NOT_FOUND,
            "invalid_request",
            "not_found",
            detail,
        )
    }

    /// 401 without a key.
    pub(crate) fn not_authenticated() -> Self {
        let detail = "Send a personal key: Authorization: Bearer phx_….";
        Self::unauthorized("not_authenticated", detail)
    }

    /// 401 with a key that does not work.
    pub(crate) fn authentication_failed() -> Self {
        let detail = "The personal key in the Authorization header is unknown, revoked or expired.";
        Self::unauthorized("authentication_failed", detail)
    }

    fn unauthorized(code: &'static str, detail: &'static str) -> Self {
        let status = StatusCode::UNAUTHORIZED;
        Self::new(status, "authentication_error", code, detail).with("www-authenticate", "Bearer")
    }

    /// 403, naming the scope that is missing.
    pub(crate) fn missing_scope(scope: &str) -> Self {
        let detail = format!("This key lacks the scope {scope}.");
        let status = StatusCode::FORBIDDEN;
        Self::new(status, "authentication_error", "permission_denied", detail)
    }

    /// 405 with the methods that there are.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let detail = format!("Only {allow} can be used here.");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "invalid_request", "method_not_allowed", detail).with("allow", allow)
    }

    /// 503 with `Retry-After`.
    pub(crate) fn unavailable() -> Self {
        let detail = "The service cannot answer right now; try again in a few seconds.";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "server_error", "unavailable", detail).with("retry-after", "5")
    }

    /// 500.
    pub(crate) fn internal() -> Self {
        let detail = "Something went wrong here; it has been logged.";
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "server_error",
            "error",
            detail,
        )
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }
}

impl From<CatalogError> for ApiError {
    fn from(error: CatalogError) -> Self {
        tracing::error!(%error, "the catalog failed");
        match error {
            CatalogError::Unreachable { .. } | CatalogError::Locked { .. } => Self::unavailable(),
            _ => Self::internal(),
        }
    }
}

impl Reply for ApiError {
    fn into_response(self) -> Response {
        let mut response = reply::with_status(reply::json(&self), self.status).into_response();
        if let Some((name, value)) = self.header {
            let value = HeaderValue::from_static(value);
            response
                .headers_mut()
                .insert(HeaderName::from_static(name), value);
        }
        response
    }
}
