//! Wire types of errors.

use super::clickhouse_detail::ClickHouseDetail;
use super::{ApiError, ErrorDetails};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use warp::http::Response as HttpResponse;
use warp::reply::Response;

/// The body of an error.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorBody {
    /// Family of the error.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Code of the error, for programs.
    code: Cow<'static, str>,
    /// Message of the error and how to resolve it, for people.
    detail: Cow<'static, str>,
    /// Field that caused the error, if one did; nested fields are joined with `__`.
    attr: Option<String>,
    /// Error of ClickHouse; only of queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    clickhouse: Option<ClickHouseDetail>,
}

/// The body of an error for those who ask for `application/problem+json` (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemBody {
    /// `urn:millrace:error:<code>`.
    #[serde(rename = "type")]
    kind: String,
    /// Name of the status.
    title: &'static str,
    /// HTTP status.
    status: u16,
    /// Code of the error, for programs.
    code: Cow<'static, str>,
    /// Message of the error and how to resolve it, for people.
    detail: Cow<'static, str>,
    /// Field that caused the error, if one did; nested fields are joined with `__`.
    attr: Option<String>,
    /// Error of ClickHouse; only of queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    clickhouse: Option<ClickHouseDetail>,
}

impl ApiError {
    /// Family of the error.
    fn kind(&self) -> &'static str {
        match self.0.status.as_u16() {
            400 if matches!(&*self.0.code, "parse_error" | "body_too_complex") => "invalid_request",
            400 => "validation_error",
            401 | 403 => "authentication_error",
            // Clients try such a request again, which is what is to be done.
            409 if self.0.code == "idempotency_in_progress" => "server_error",
            429 => "throttled_error",
            500.. => "server_error",
            _ => "invalid_request",
        }
    }

    /// Builds the response; as `application/problem+json` (RFC 9457) if the client prefers that.
    pub(crate) fn into_response(self, problem: bool) -> Response {
        let kind = self.kind();
        let ErrorDetails {
            status,
            code,
            detail,
            attr,
            header,
            clickhouse,
        } = *self.0;
        let (content_type, body) = if problem {
            let body = ProblemBody {
                kind: format!("urn:millrace:error:{code}"),
                title: status.canonical_reason().unwrap_or_default(),
                status: status.as_u16(),
                code,
                detail,
                attr,
                clickhouse,
            };
            ("application/problem+json", serde_json::to_vec(&body))
        } else {
            let body = ErrorBody {
                kind,
                code,
                detail,
                attr,
                clickhouse,
            };
            ("application/json", serde_json::to_vec(&body))
        };
        // Texts and numbers can always be written.
        let mut response = HttpResponse::new(body.unwrap_or_default().into());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some((name, value)) = header
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            headers.insert(name, value);
        }
        response
    }
}
