//! Which project a request is for.

use crate::span::{Document, Event, Shape, Span};
use crate::{ApiError, Facts, KeyLookup, ParseError, Project, Protocol, text};

/// Bytes of a project key, at most.
const KEY_BYTES_MAX: usize = 64;
/// What a personal key begins with: it opens the admin API and has no business here.
const PERSONAL_PREFIX: &str = "phx_";

/// Finds the request's one project key and looks it up.
pub fn resolve(
    document: &Document,
    body: &[u8],
    facts: &Facts<'_>,
    find: &mut dyn FnMut(&str) -> KeyLookup,
) -> Result<Project, ParseError> {
    let mut scratch = String::new();
    let key = match facts.protocol {
        Protocol::V1 { key, .. } => key,
        Protocol::V0 => {
            let span = request_key(document, body)?;
            if !span.is_string() {
                return Err(malformed().into());
            }
            text::decode(body, span, &mut scratch).map_err(|_| malformed())?
        }
    };
    let key = key.trim();
    check(key)?;
    match find(key) {
        KeyLookup::Found(project) => Ok(project),
        KeyLookup::Missing => Err(ParseError::NeedsKey(key.to_owned())),
        KeyLookup::Unknown => Err(unknown().into()),
    }
}

fn check(key: &str) -> Result<(), ApiError> {
    let is_well_formed = !key.is_empty()
        && key.len() <= KEY_BYTES_MAX
        && key.bytes().all(|byte| byte.is_ascii_graphic())
        && !key.starts_with(PERSONAL_PREFIX);
    if is_well_formed {
        Ok(())
    } else {
        Err(malformed())
    }
}

/// The key at the top of the request, else the one its events agree on.
fn request_key(document: &Document, body: &[u8]) -> Result<Span, ApiError> {
    if document.shape != Shape::Array {
        let root = document.event(&document.root);
        let top = agree(body, root.rare.api_key, root.rare.token)?;
        if !top.is_none() {
            return Ok(top);
        }
    }
    let mut found = Span::default();
    for event in &document.events {
        found = agree(body, found, event_key(document.event(event), body)?)?;
    }
    if found.is_none() {
        return Err(missing());
    }
    Ok(found)
}

/// The key of one event; a property named `token` counts only when the event has no other, as it
/// may as well be a property of the user's.
fn event_key(event: Event<'_>, body: &[u8]) -> Result<Span, ApiError> {
    let top = agree(body, event.rare.api_key, event.rare.token)?;
    let top = agree(body, top, event.rare.dollar_token)?;
    if top.is_none() && event.properties.token.is_string() {
        return Ok(event.properties.token);
    }
    Ok(top)
}

/// The one key that is given, or that both are.
fn agree(body: &[u8], one: Span, other: Span) -> Result<Span, ApiError> {
    if one.is_none() {
        return Ok(other);
    }
    if other.is_none() || one.of(body) == other.of(body) {
        return Ok(one);
    }
    let (mut a, mut b) = (String::new(), String::new());
    let same = match (
        text::decode(body, one, &mut a),
        text::decode(body, other, &mut b),
    ) {
        (Ok(a), Ok(b)) => a.trim() == b.trim(),
        _ => false,
    };
    if same { Ok(one) } else { Err(multiple()) }
}

#[cold]
fn missing() -> ApiError {
    ApiError::unauthorized(
        "missing_api_key",
        "The request has no project key. Send it as `api_key` beside `batch`, or in the event.",
    )
}

#[cold]
fn malformed() -> ApiError {
    ApiError::unauthorized(
        "invalid_api_key",
        "This is not a project key. A project key is ASCII text of at most 64 characters, and not a personal key (`phx_…`).",
    )
}

#[cold]
fn unknown() -> ApiError {
    ApiError::unauthorized(
        "unknown_api_key",
        "No project has this key. It may have been reset: copy the present one from the project's settings.",
    )
}

#[cold]
fn multiple() -> ApiError {
    ApiError::unauthorized(
        "multiple_api_keys",
        "The request names two different project keys. Send the events of each project in a request of their own.",
    )
}
