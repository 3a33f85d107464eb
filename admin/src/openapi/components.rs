//! Components of the document that operations share.

use serde_json::{Map, Value, json};

/// A status, the description of its response, and the headers of the response.
type Shared = (u16, &'static str, &'static [&'static str]);

const RESPONSES: [Shared; 12] = [
    (
        400,
        "The body is not JSON, it has more than 10 000 values, or a field is invalid; the first \
         one is named.",
        &[],
    ),
    (
        401,
        "The key is missing, unknown, revoked or expired, or the session has ended.",
        &["WWW-Authenticate"],
    ),
    (
        403,
        "The key lacks a scope, its owner the level, or the organization the feature; or a session's \
         request may be another site's.",
        &[],
    ),
    (
        404,
        "Nothing is at this address, or you may not see it.",
        &[],
    ),
    (405, "The path has no such method.", &["Allow"]),
    (406, "`Accept` names no format of the answer.", &[]),
    (
        409,
        "The request conflicts with another, such as the first one with this `Idempotency-Key`.",
        &[],
    ),
    (
        412,
        "The resource has changed: `If-Match` names another version.",
        &[],
    ),
    (413, "The body is longer than 1 MiB.", &[]),
    (415, "The body is not JSON.", &[]),
    (
        429,
        "Too many requests with this key, too many wrong keys, too many queries at a time, or too \
         many answers that are kept for replays by `Idempotency-Key`.",
        &["Retry-After"],
    ),
    (
        503,
        "The service cannot answer right now. If `detail` says so, a change may have been executed \
         nevertheless.",
        &["Retry-After"],
    ),
];

pub(super) fn security_schemes() -> Value {
    json!({
        "personalKey": {
            "type": "http",
            "scheme": "bearer",
            "description": "A personal key, `phx_…`, with the scopes that the operation names.",
        },
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": "__Host-millrace",
            "description": "The session of a person who signed in, with all of their rights. \
                            Without TLS, at a loopback address, the cookie is `millrace`. Requests \
                            other than `GET` need the header `X-Millrace-CSRF`, with any value, and \
                            the `Origin` of the API; otherwise they are answered 403 `csrf_failed`.",
        },
    })
}

pub(super) fn parameters() -> Value {
    let header = |name: &str, description: &str| {
        json!({
            "name": name,
            "in": "header",
            "description": description,
            "schema": { "type": "string" },
        })
    };
    let number = |name: &str, description: &str| {
        json!({
            "name": name,
            "in": "query",
            "description": description,
            "schema": { "type": "integer" },
        })
    };
    json!({
        "Limit": number("limit", "Rows of the page: 100 if not given, 1000 at most."),
        "Offset": number("offset", "Number of rows to skip."),
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Any text. The same request with the same text is executed once in 24 h.",
            "schema": { "type": "string", "pattern": "^[!-~]([ -~]{0,253}[!-~])?$" },
        },
        "IfMatch": header("If-Match", "Change the resource only if it still has this `ETag`."),
        "IfNoneMatch": header("If-None-Match", "Answer 304 if the resource still has this `ETag`."),
        "RequestId": header(
            "X-Request-Id",
            "Id of the request in log lines: up to 128 characters without spaces.",
        ),
    })
}

pub(super) fn headers() -> Value {
    let header = |kind: &str, description: &str| json!({ "description": description, "schema": { "type": kind } });
    json!({
        "X-Request-Id": header("string", "Id of the request in log lines."),
        "RateLimit-Limit": header("integer", "Limit of the window with the fewest requests left."),
        "RateLimit-Remaining": header("integer", "Requests left in that window."),
        "RateLimit-Reset": header("integer", "Seconds until all of its requests are available again."),
        "ETag": header("string", "Version of the resource."),
        "Idempotent-Replayed": header("string", "`true` if this replays the first response."),
        "WWW-Authenticate": header("string", "`Bearer`."),
        "Allow": header("string", "Methods of the path."),
        "Retry-After": header("integer", "Seconds after which to try again."),
    })
}

pub(super) fn responses() -> Value {
    let mut written = Map::new();
    for (status, description, own) in RESPONSES {
        let mut headers = Map::new();
        for name in own.iter().chain(&["X-Request-Id"]) {
            let reference = json!({ "$ref": format!("#/components/headers/{name}") });
            headers.insert((*name).to_owned(), reference);
        }
        let schema =
            |name: &str| json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } });
        let response = json!({
            "description": description,
            "headers": headers,
            "content": {
                "application/json": schema("Error"),
                "application/problem+json": schema("Problem"),
            },
        });
        written.insert(status.to_string(), response);
    }
    let unchanged = json!({
        "description": "The resource still has the `ETag` of `If-None-Match`.",
        "headers": {
            "ETag": { "$ref": "#/components/headers/ETag" },
            "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" },
        },
    });
    written.insert("304".to_owned(), unchanged);
    written.into()
}
