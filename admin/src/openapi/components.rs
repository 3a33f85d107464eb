//! What operations share.

use serde_json::{Map, Value, json};

/// A status, when it is answered, and the headers that come with it.
type Shared = (u16, &'static str, &'static [&'static str]);

const RESPONSES: [Shared; 11] = [
    (
        400,
        "The body is no JSON, or a field in it is wrong: the first one is named.",
        &[],
    ),
    (
        401,
        "There is no key, or it is unknown, revoked or expired.",
        &["WWW-Authenticate"],
    ),
    (
        403,
        "The key lacks a scope, its owner the level, or the organization the feature.",
        &[],
    ),
    (
        404,
        "There is nothing there, or it is not yours to see.",
        &[],
    ),
    (405, "The path has no such method.", &["Allow"]),
    (
        409,
        "Another request is in the way, such as the first one with this Idempotency-Key.",
        &[],
    ),
    (412, "It has changed since.", &[]),
    (413, "The body is longer than 1 MiB.", &[]),
    (415, "The body is something else than JSON.", &[]),
    (
        429,
        "Too many requests with this key, or too many wrong keys.",
        &["Retry-After"],
    ),
    (
        503,
        "The service cannot answer right now.",
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
        "Limit": number("limit", "How many to answer: 100 if not given, 1000 at most."),
        "Offset": number("offset", "How many to skip."),
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Any text. The same request with the same text is made once in 24 hours.",
            "schema": { "type": "string", "pattern": "^[!-~]([ -~]{0,253}[!-~])?$" },
        },
        "IfMatch": header("If-Match", "Only if it still has this `ETag`."),
        "IfNoneMatch": header("If-None-Match", "Only if it does not have this `ETag`."),
        "RequestId": header(
            "X-Request-Id",
            "A name for the request in log lines: up to 128 characters without spaces.",
        ),
    })
}

pub(super) fn headers() -> Value {
    let header = |kind: &str, description: &str| json!({ "description": description, "schema": { "type": kind } });
    json!({
        "X-Request-Id": header("string", "The name of the request in log lines."),
        "RateLimit-Limit": header("integer", "Requests in the nearer window."),
        "RateLimit-Remaining": header("integer", "Requests left in it."),
        "RateLimit-Reset": header("integer", "Seconds until it is empty again."),
        "ETag": header("string", "The version."),
        "Idempotent-Replayed": header("string", "`true` if this is the first request's answer."),
        "WWW-Authenticate": header("string", "`Bearer`."),
        "Allow": header("string", "The methods that there are."),
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
        "description": "It still has the `ETag` of `If-None-Match`.",
        "headers": {
            "ETag": { "$ref": "#/components/headers/ETag" },
            "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" },
        },
    });
    written.insert("304".to_owned(), unchanged);
    written.into()
}
