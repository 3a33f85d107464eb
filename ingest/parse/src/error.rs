//! What a client is told when something is wrong.
//!
//! [`ApiError`] is the client's message; what the operator reads goes to the log where the error
//! arises. The body is the same everywhere in the product:
//! `{"type","code","detail","attr"}`.

use http::StatusCode;
use serde::Serialize;
use std::borrow::Cow;

/// The `type` of an error body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The request was read, and something in it breaks a rule.
    ValidationError,
    /// The request could not be read.
    InvalidRequest,
    /// Who sent it is unknown or may not.
    AuthenticationError,
    /// Too much at a time.
    ThrottledError,
    /// Our trouble; sending it again later is right.
    ServerError,
}

/// An answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiError {
    /// The HTTP status; not part of the body.
    #[serde(skip)]
    pub status: StatusCode,
    /// The family of the error.
    #[serde(rename = "type")]
    pub kind: ErrorType,
    /// What went wrong, for programs.
    pub code: &'static str,
    /// What went wrong and what to do, for people.
    pub detail: Cow<'static, str>,
    /// The place in the request, such as `batch[7].timestamp`.
    pub attr: Option<String>,
    /// Seconds after which to try again, for 429 and 503.
    #[serde(skip)]
    pub retry_after_seconds: Option<u32>,
}

impl ApiError {
    /// An error of any status. `kind` must fit the status as the contract's last table says.
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

    /// 400 `validation_error`.
    pub fn invalid(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            ErrorType::ValidationError,
            code,
            detail,
        )
    }

    /// 401 `authentication_error`.
    pub fn unauthorized(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            ErrorType::AuthenticationError,
            code,
            detail,
        )
    }

    /// 401 for a request that names two different projects.
    #[must_use]
    pub fn multiple_api_keys() -> Self {
        Self::unauthorized(
            "multiple_api_keys",
            "The request names two different project keys. Send the events of each project in a request of their own.",
        )
    }

    /// 401 for a key that no project has.
    #[must_use]
    pub fn unknown_api_key() -> Self {
        Self::unauthorized(
            "unknown_api_key",
            "No project has this key. It may have been reset: copy the present one from the project's settings.",
        )
    }

    /// 503 `server_error` with `Retry-After`.
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

    /// The same error at a place in the request.
    #[must_use]
    pub fn at(mut self, attr: impl Into<String>) -> Self {
        self.attr = Some(attr.into());
        self
    }
}
