//! Error responses of the product: status, code and detail for clients.
//!
//! [`ApiError`] is the client's message; the operator's goes to the log where the error arises. The
//! body is the same everywhere in the product: `{"type","code","detail","attr"}`.

use http::StatusCode;
use serde::Serialize;
use std::borrow::Cow;

/// Value of `type` in an error body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The request was read, and something in it breaks a rule.
    ValidationError,
    /// The request could not be read.
    InvalidRequest,
    /// The sender is unknown or lacks a permission.
    AuthenticationError,
    /// The sender exceeds a limit of rate or volume.
    ThrottledError,
    /// The server failed; retrying later is right.
    ServerError,
}

/// Error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiError {
    /// HTTP status; not part of the body.
    #[serde(skip)]
    pub status: StatusCode,
    /// Family of the error.
    #[serde(rename = "type")]
    pub kind: ErrorType,
    /// Machine-readable code of the error.
    pub code: &'static str,
    /// Explanation for people of what went wrong and what to do.
    pub detail: Cow<'static, str>,
    /// Place in the request, such as `batch[7].timestamp`.
    pub attr: Option<String>,
    /// Seconds after which to try again, for 429 and 503.
    #[serde(skip)]
    pub retry_after_seconds: Option<u32>,
}

impl ApiError {
    /// Builds an error of any status. `kind` must fit the status as the contract's last table says.
    pub fn new(
        status: StatusCode,
        kind: ErrorType,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            kind,
            code,
            detail: detail.into(),
            attr: None,
            retry_after_seconds: None,
        }
    }

    /// Builds a 400 `validation_error`.
    pub fn invalid(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            ErrorType::ValidationError,
            code,
            detail,
        )
    }

    /// Builds a 401 `authentication_error`.
    pub fn unauthorized(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            ErrorType::AuthenticationError,
            code,
            detail,
        )
    }

    /// Builds a 401 for a request that names two different projects.
    #[must_use]
    pub fn multiple_api_keys() -> Self {
        Self::unauthorized(
            "multiple_api_keys",
            "The request names two different project keys. Send the events of each project in a request of their own.",
        )
    }

    /// Builds a 401 for a key that no project has.
    #[must_use]
    pub fn unknown_api_key() -> Self {
        Self::unauthorized(
            "unknown_api_key",
            "No project has this key. It may have been reset: copy the present one from the project's settings.",
        )
    }

    /// Builds a 503 `server_error` with `Retry-After`.
    pub fn unavailable(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            retry_after_seconds: Some(5),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorType::ServerError,
                code,
                detail,
            )
        }
    }

    /// Adds the place in the request.
    #[must_use]
    pub fn at(mut self, attr: impl Into<String>) -> Self {
        self.attr = Some(attr.into());
        self
    }
}
