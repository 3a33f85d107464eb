//! Errors of the API: the same four keys everywhere, and one more for queries in ClickHouse.
//!
//! [`ApiError`] is the message for the client. Internal errors are logged where they arise and
//! answered without details. This module maps errors of the catalog to statuses, `query` those of
//! ClickHouse, `live` those of live streams, `rejected_events` and `stats` those about events;
//! `wire` holds the bodies.

mod clickhouse_detail;
mod live;
mod query;
mod rejected_events;
mod stats;
mod wire;

pub(crate) use wire::{ErrorBody, ProblemBody};

use crate::mail::QuotaOwner;
use crate::request::throttle::RateLimitStatus;
use clickhouse_detail::ClickHouseDetail;
use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, StatusCode};
use millrace_catalog::{CatalogError, ChangeError};
use millrace_exports::IntervalError;
use millrace_organizations::ResponsesFull;
use std::borrow::Cow;
use std::time::Duration;

/// Seconds after which a client should retry after an internal problem.
const RETRY_SECONDS: u64 = 5;

/// Error response of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError(Box<ErrorDetails>);

/// Details of an error response.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ErrorDetails {
    status: StatusCode,
    /// Code of the error, for programs.
    code: Cow<'static, str>,
    /// Message of the error and how to resolve it, for people.
    detail: Cow<'static, str>,
    /// Field that caused the error, if one did; nested fields are joined with `__`.
    attr: Option<String>,
    /// Header that goes with the status.
    header: Option<(HeaderName, String)>,
    /// Error of ClickHouse, of a query.
    clickhouse: Option<ClickHouseDetail>,
}

// === errors of handlers ===

impl ApiError {
    /// 400 for a field, or for several together if `attr` is `None`.
    pub(crate) fn invalid(
        code: impl Into<Cow<'static, str>>,
        attr: Option<&str>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        let mut error = Self::new(StatusCode::BAD_REQUEST, code, detail);
        error.0.attr = attr.map(str::to_owned);
        error
    }

    /// 403: the caller's level or key does not reach that far.
    pub(crate) fn forbidden(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_denied", detail)
    }

    /// 403: an operator took the feature away from the organization.
    pub(crate) fn feature_missing(feature: &str) -> Self {
        let detail = format!("The organization does not have the feature {feature}.");
        Self::new(StatusCode::FORBIDDEN, "payment_required", detail)
    }

    /// 404, for paths and ids alike: foreign, unknown and malformed ones are answered the same.
    pub(crate) fn not_found() -> Self {
        let detail = "There is nothing at this address, or it is not yours to see.";
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// 409 with a code of its own.
    pub(crate) fn conflict(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 500; what went wrong is logged where it went wrong.
    pub(crate) fn internal() -> Self {
        let detail = "Something went wrong here; it has been logged.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "error", detail)
    }

    /// 503 with `Retry-After`.
    pub(crate) fn unavailable() -> Self {
        let detail = "The service cannot answer right now; try again in a few seconds.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            .with(RETRY_AFTER, RETRY_SECONDS.to_string())
    }

    /// 503 with `Retry-After`, for a request that took too long. A change goes on all the same.
    pub(crate) fn timed_out(is_read: bool) -> Self {
        let mut error = Self::unavailable();
        if !is_read {
            error.0.detail = "The answer took too long. The request may have been executed, or \
                              may still be: look before you repeat it. A POST with an \
                              Idempotency-Key can be repeated with that key at once: it is \
                              executed once."
                .into();
        }
        error
    }

    /// 503 with `Retry-After`, for a user whose unread responses take too much memory.
    pub(crate) fn responses_unread() -> Self {
        let mut error = Self::unavailable();
        error.0.detail =
            "Too many answers wait to be read; read the answers to your requests, then try again."
                .into();
        error
    }

    /// Prefixes the field with `parent`: `parent__field`, `4__field`.
    #[must_use]
    pub(crate) fn within(mut self, parent: &str) -> Self {
        self.0.attr = Some(match self.0.attr {
            Some(attr) => format!("{parent}__{attr}"),
            None => parent.to_owned(),
        });
        self
    }
}

// === errors of the middleware ===

impl ApiError {
    /// 401 without a key.
    pub(crate) fn not_authenticated() -> Self {
        let detail = "Send a personal key: Authorization: Bearer phx_…. People sign in.";
        Self::unauthorized("not_authenticated", detail)
    }

    /// 401 with a key that does not work.
    pub(crate) fn authentication_failed() -> Self {
        let detail = "The personal key in the Authorization header is unknown, revoked or expired.";
        Self::unauthorized("authentication_failed", detail)
    }

    /// 401 with a session that has ended.
    pub(crate) fn session_ended() -> Self {
        let detail = "The session has ended; sign in again.";
        Self::unauthorized("session_ended", detail)
    }

    /// 403 for a request of a session that a page of another site could have sent.
    pub(crate) fn csrf_failed() -> Self {
        let detail = "With a session, every request but GET needs the header X-Millrace-CSRF, with \
                      any value, and the Origin of the address at which the API is reached. \
                      Programs send a personal key instead.";
        Self::new(StatusCode::FORBIDDEN, "csrf_failed", detail)
    }

    fn unauthorized(code: &'static str, detail: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, detail)
            .with(WWW_AUTHENTICATE, "Bearer".to_owned())
    }

    /// 403, naming the scope that is missing.
    pub(crate) fn missing_scope(scope: &str) -> Self {
        Self::forbidden(format!("This key lacks the scope {scope}."))
    }

    /// 405 with the methods of the path.
    pub(crate) fn method_not_allowed(allow: &str) -> Self {
        let detail = format!("Only {allow} can be used here.");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
            .with(ALLOW, allow.to_owned())
    }

    /// 412: the `If-Match` header names another version.
    pub(crate) fn precondition_failed() -> Self {
        let detail = "It has changed since: the If-Match header names another version.";
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            "precondition_failed",
            detail,
        )
    }

    /// 413 with the longest body allowed.
    pub(crate) fn payload_too_large(bytes_max: usize) -> Self {
        let detail = format!("A body may have {bytes_max} bytes at most.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", detail)
    }

    /// 415: the body is not uncompressed JSON.
    pub(crate) fn unsupported_media_type() -> Self {
        let detail = "Send JSON, uncompressed: Content-Type: application/json.";
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            detail,
        )
    }

    /// 400 for a body that is no JSON.
    pub(crate) fn parse_error(reason: &str) -> Self {
        let detail = format!("The body is not JSON: {reason}.");
        Self::new(StatusCode::BAD_REQUEST, "parse_error", detail)
    }

    /// 400 for a body of too many values, which take far more memory than their text.
    pub(crate) fn body_too_complex(values_max: usize) -> Self {
        let detail = format!(
            "A body may have {values_max} values at most (texts, numbers, lists, objects), together \
             with those within free-form fields, as config_schema; send less in a request."
        );
        Self::new(StatusCode::BAD_REQUEST, "body_too_complex", detail)
    }

    /// 429 with the seconds until the next request passes.
    pub(crate) fn throttled(rate_limit: RateLimitStatus) -> Self {
        let seconds = rate_limit.retry_after_seconds.max(1);
        let detail = format!("Too many requests; send the next one in {seconds} s.");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "throttled", detail)
            .with(RETRY_AFTER, seconds.to_string())
    }

    /// 429 for too many mails, not requests.
    pub(crate) fn too_many_mails(owner: &QuotaOwner, wait: Duration) -> Self {
        let seconds = (wait.as_secs() + 1).to_string();
        let too_many = match owner {
            QuotaOwner::Organization => "The organization has sent too many mails".to_owned(),
            QuotaOwner::User => {
                "You have sent too many mails, in all organizations together".to_owned()
            }
            // Escaped, as the address has not been validated yet.
            QuotaOwner::Address(address) => format!("Too many invites were mailed to {address:?}"),
        };
        let detail = format!("{too_many}; one more can be sent in {seconds} s.");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "throttled", detail).with(RETRY_AFTER, seconds)
    }

    /// 429 for a new `Idempotency-Key`, whose response could not be kept. The claim of an earlier
    /// request with the key may have lapsed after it was carried out.
    pub(crate) fn too_many_kept_responses(full: &ResponsesFull) -> Self {
        let seconds = full.wait.as_secs() + 1;
        let whose = if full.is_of_organization {
            "the organization's members"
        } else {
            "you"
        };
        let mebibytes = full.bytes_max >> 20;
        let detail = format!(
            "This request was not executed (an earlier one with its key that got no answer may \
             have been): the answers that are kept for {whose} to replay by Idempotency-Key have \
             {mebibytes} MiB, the most allowed. Send it without the header, or again in {seconds} s."
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "throttled", detail)
            .with(RETRY_AFTER, seconds.to_string())
    }

    fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self(Box::new(ErrorDetails {
            status,
            code: code.into(),
            detail: detail.into(),
            attr: None,
            header: None,
            clickhouse: None,
        }))
    }

    fn with(mut self, name: HeaderName, value: String) -> Self {
        self.0.header = Some((name, value));
        self
    }

    /// 400 for an export that a later version, or somebody by hand, gave an interval that this
    /// version does not know.
    fn interval_unknown(interval: &str) -> Self {
        let detail = format!(
            "The export has the interval {interval:?}, which this version does not know. Change it first: \
             {IntervalError}."
        );
        Self::invalid("invalid_choice", Some("interval"), detail)
    }

    /// HTTP status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }
}

impl From<CatalogError> for ApiError {
    fn from(error: CatalogError) -> Self {
        match &error {
            CatalogError::ConditionBroken => return Self::precondition_failed(),
            CatalogError::WrongInterval { interval, .. } => {
                return Self::interval_unknown(interval);
            }
            _ => {}
        }
        tracing::error!(%error, "the catalog failed");
        match error {
            CatalogError::Unreachable { .. }
            | CatalogError::Locked { .. }
            | CatalogError::Conflict { .. } => Self::unavailable(),
            _ => Self::internal(),
        }
    }
}

impl From<ChangeError> for ApiError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Catalog(error) => error.into(),
            ChangeError::Forbidden(detail) => Self::forbidden(detail),
            ChangeError::FeatureMissing(feature) => Self::feature_missing(feature),
            ChangeError::Unavailable(reason) => {
                tracing::warn!(reason, "a change cannot be made now");
                Self::unavailable()
            }
            other => match other.violation() {
                Some(broken) => Self::invalid(broken.code, broken.field.as_deref(), broken.detail),
                // Named by the path: an unknown id in a body is a violation.
                None => Self::not_found(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_catalog_errors_are_503_with_retry_after() {
        let (location, reason) = (String::new, String::new);
        let table = [
            (
                CatalogError::Locked {
                    location: location(),
                },
                503,
            ),
            (
                CatalogError::Unreachable {
                    location: location(),
                    reason: reason(),
                },
                503,
            ),
            (
                CatalogError::Conflict {
                    location: location(),
                    reason: reason(),
                },
                503,
            ),
            (
                CatalogError::Full {
                    location: location(),
                },
                500,
            ),
        ];
        for (error, status) in table {
            let answered = ApiError::from(error.clone());
            assert_eq!(answered.status().as_u16(), status, "{error:?}");
            assert_eq!(answered.0.header.is_some(), status == 503, "{error:?}");
        }
    }

    #[test]
    fn a_refusal_of_a_key_speaks_of_its_own_request_alone() {
        for is_of_organization in [false, true] {
            let refused = ApiError::too_many_kept_responses(&ResponsesFull {
                is_of_organization,
                bytes_max: 64 << 20,
                wait: Duration::from_secs(9),
            });
            let detail = &refused.0.detail;
            for words in ["This request was not executed", "64 MiB", "in 10 s"] {
                assert!(detail.contains(words), "{detail}");
            }
            assert!(!detail.contains("othing was done"), "{detail}");
        }
    }
}
