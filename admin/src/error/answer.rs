//! What an error looks like on the wire.

use super::{ApiError, Told};
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
    /// The family of the error.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What went wrong, for programs.
    code: Cow<'static, str>,
    /// What went wrong and what to do, for people.
    detail: Cow<'static, str>,
    /// The field, if one is to blame; nested ones joined with `__`.
    attr: Option<String>,
}

/// The body of an error for those who ask for `application/problem+json` (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemBody {
    /// `urn:millrace:error:<code>`.
    #[serde(rename = "type")]
    kind: String,
    /// The name of the status.
    title: &'static str,
    /// The status.
    status: u16,
    /// What went wrong, for programs.
    code: Cow<'static, str>,
    /// What went wrong and what to do, for people.
    detail: Cow<'static, str>,
    /// The field, if one is to blame; nested ones joined with `__`.
    attr: Option<String>,
}

impl ApiError {
    /// The family of the error.
    fn kind(&self) -> &'static str {
        match self.0.status.as_u16() {
            400 if self.0.code == "parse_error" => "invalid_request",
            400 => "validation_error",
            401 | 403 => "authentication_error",
            // As clients of PostHog's API know it.
            409 => "server_error",
            429 => "throttled_error",
            500.. => "server_error",
            _ => "invalid_request",
        }
    }

    /// The answer; as `application/problem+json` (RFC 9457) if the client prefers that.
    pub(crate) fn into_answer(self, problem: bool) -> Response {
        let kind = self.kind();
        let Told {
            status,
            code,
            detail,
            attr,
            header,
        } = *self.0;
        let (content_type, body) = if problem {
            let body = ProblemBody {
                kind: format!("urn:millrace:error:{code}"),
                title: status.canonical_reason().unwrap_or_default(),
                status: status.as_u16(),
                code,
                detail,
                attr,
            };
            ("application/problem+json", serde_json::to_vec(&body))
        } else {
            let body = ErrorBody {
                kind,
                code,
                detail,
                attr,
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
