//! Selection of rejected events by a query, and what a selection's texts may be.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Limit;
use crate::rejected_events::RejectedSelection;
use crate::request::uuid_text;

/// Limits of questions to ClickHouse.
pub(super) const LIMITS: [Limit; 2] = [Limit::Queries, Limit::AllQueries];
/// Detail of a question that ClickHouse gave up.
pub(super) const TOO_MUCH: &str =
    "This takes more time or memory than it may: select fewer events.";
/// Longest code, in bytes; no rule has one as long.
const CODE_BYTES_MAX: usize = 64;

/// Reads the selection that a query makes.
///
/// # Errors
///
/// 400 if a parameter is invalid: without it other events would be selected.
pub(super) fn of_query(context: &Context) -> Result<RejectedSelection, ApiError> {
    let request_id = context.query("request_id").map(|text| {
        let refused = || invalid("request_id", "Give the id of a request, which is a UUID.");
        uuid_text::parse(&text).ok_or_else(refused)
    });
    Ok(RejectedSelection {
        project_id: context.project()?.id,
        code: context.query("code").map(checked_code).transpose()?,
        after: context.query_time("after")?,
        before: context.query_time("before")?,
        request_id: request_id.transpose()?,
        chosen: Vec::new(),
        unsent: is_true(context, "unsent")?,
    })
}

/// Returns a code as codes are spelled.
///
/// # Errors
///
/// 400 for other texts, which no event has.
pub(super) fn checked_code(code: String) -> Result<String, ApiError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_code = code.len() <= CODE_BYTES_MAX && code.bytes().all(is_plain);
    let detail = "A code has lower-case letters, digits and _, as missing_distinct_id.";
    is_code
        .then_some(code)
        .ok_or_else(|| invalid("code", detail))
}

/// Reads a truth value of the query; false if it is missing.
fn is_true(context: &Context, name: &str) -> Result<bool, ApiError> {
    match context.query(name).as_deref() {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(_) => Err(invalid(name, "Give true or false.")),
    }
}

fn invalid(name: &str, detail: &'static str) -> ApiError {
    ApiError::invalid("invalid_input", Some(name), detail)
}
