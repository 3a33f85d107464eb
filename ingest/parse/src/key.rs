//! Project key of a request.

use crate::span::{BodyShape, Document, Event, Span};
use crate::text::{self, LoneSurrogate};
use crate::{ApiError, KeyLookup, ParseContext, ParseError, Project, Protocol};

/// Bytes of a project key, at most.
const KEY_BYTES_MAX: usize = 64;
/// Prefix of personal keys, which open the admin API and are refused here.
const PERSONAL_PREFIX: &str = "phx_";

/// Finds the request's one project key and looks it up.
pub fn resolve(
    document: &Document,
    body: &[u8],
    context: &ParseContext<'_>,
    find: &mut dyn FnMut(&str) -> KeyLookup,
) -> Result<Project, ParseError> {
    let mut scratch = String::new();
    let key = match context.protocol {
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
        KeyLookup::Unknown => Err(ApiError::unknown_api_key().into()),
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

/// Key at the top of the request, else the one its events agree on.
fn request_key(document: &Document, body: &[u8]) -> Result<Span, ApiError> {
    if document.shape != BodyShape::Array {
        let root = document.event(&document.root);
        let top = agree(body, root.rare.api_key, root.rare.token)?;
        if !top.is_none() {
            return Ok(top);
        }
    }
    let mut agreed = SharedKey::default();
    for event in &document.events {
        agreed.add(body, event_key(document.event(event), body)?)?;
    }
    if agreed.key.is_none() {
        return Err(missing());
    }
    Ok(agreed.key)
}

/// Key that all events so far share.
#[derive(Default)]
struct SharedKey {
    key: Span,
    /// Text of the key, once some event spelled it otherwise. It is read once, as it may be as long
    /// as the body: each event is to cost no more than its own text.
    text: Option<Result<String, LoneSurrogate>>,
    scratch: String,
}

impl SharedKey {
    /// Adds the key of one event.
    fn add(&mut self, body: &[u8], key: Span) -> Result<(), ApiError> {
        if self.key.is_none() {
            self.key = key;
        } else if !key.is_none() && key.of(body) != self.key.of(body) {
            let agreed = self.text.get_or_insert_with(|| {
                let mut scratch = String::new();
                let text = text::decode(body, self.key, &mut scratch)?;
                Ok(text.trim().to_owned())
            });
            let text = text::decode(body, key, &mut self.scratch).map(str::trim);
            if text.is_err() || text != agreed.as_deref().map_err(|error| *error) {
                return Err(ApiError::multiple_api_keys());
            }
        }
        Ok(())
    }
}

/// Key of one event; a property named `token` counts only when the event has no other, as it may as
/// well be a property of the user's.
fn event_key(event: Event<'_>, body: &[u8]) -> Result<Span, ApiError> {
    let top = agree(body, event.rare.api_key, event.rare.token)?;
    let top = agree(body, top, event.rare.dollar_token)?;
    if top.is_none() && event.properties.token.is_string() {
        return Ok(event.properties.token);
    }
    Ok(top)
}

/// One of two keys of an object, if only one is given or both are the same.
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
    if same {
        Ok(one)
    } else {
        Err(ApiError::multiple_api_keys())
    }
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
