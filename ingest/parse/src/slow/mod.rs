//! The slow path: what the fast one refuses is read again, byte by byte.
//!
//! Either there is something that real clients send and that can be repaired, in a copy that then
//! takes the fast path (bare `NaN`, `Infinity` and `-Infinity` become `null`, CESU-8 becomes
//! UTF-8, a byte order mark goes); or the text is broken, and the scan says what and where.

mod scan;
mod utf8;

use crate::{ApiError, ErrorType};
use http::StatusCode;
use scan::Fault;

/// A body that the fast path can read.
#[derive(Debug, Default)]
pub struct Repaired {
    /// The text; reused.
    pub text: Vec<u8>,
    /// Offsets in `text` of the numbers that became `null`, rising.
    pub nulls: Vec<u32>,
}

/// A run of bytes and what takes its place.
struct Patch {
    start: usize,
    end: usize,
    with: Replacement,
}

enum Replacement {
    Nothing,
    Null,
    Character(char),
}

/// Repairs a body into `repaired`, or says what is wrong with it.
#[cold]
pub fn repair(body: &[u8], depth_max: usize, repaired: &mut Repaired) -> Result<(), ApiError> {
    let mut patches = utf8::patches(body).map_err(invalid_utf8)?;
    let has_mark = body.starts_with(BYTE_ORDER_MARK);
    let start = if has_mark { BYTE_ORDER_MARK.len() } else { 0 };
    if has_mark {
        patches.push(Patch {
            start: 0,
            end: start,
            with: Replacement::Nothing,
        });
    }
    match scan::scan(body, start, depth_max) {
        Ok(nulls) => patches.extend(nulls),
        Err(Fault::Syntax(at)) => return Err(invalid_json(at)),
        Err(Fault::TooDeep(at)) => return Err(too_deep(at, depth_max)),
        Err(Fault::NotAContainer) => return Err(invalid_body()),
    }
    patches.sort_by_key(|patch| patch.start);
    apply(body, &patches, repaired);
    Ok(())
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn apply(body: &[u8], patches: &[Patch], repaired: &mut Repaired) {
    let Repaired { text, nulls } = repaired;
    text.clear();
    nulls.clear();
    let mut copied = 0;
    for patch in patches {
        text.extend_from_slice(body.get(copied..patch.start).unwrap_or_default());
        copied = patch.end;
        match patch.with {
            Replacement::Nothing => {}
            Replacement::Null => {
                nulls.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
                text.extend_from_slice(b"null");
            }
            Replacement::Character(character) => {
                let mut bytes = [0; 4];
                text.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
            }
        }
    }
    text.extend_from_slice(body.get(copied..).unwrap_or_default());
}

/// The body is an object or array neither of events nor with a batch.
pub fn invalid_body() -> ApiError {
    ApiError::invalid(
        "invalid_body",
        "The body must be an event, an array of events, or an object whose `batch` is an array of events.",
    )
}

/// The body is not JSON from this byte on.
pub fn invalid_json(at: usize) -> ApiError {
    unreadable(
        "invalid_json",
        format!("The body is not valid JSON: it goes wrong at byte {at}."),
    )
}

fn invalid_utf8(at: usize) -> ApiError {
    unreadable(
        "invalid_utf8",
        format!("The body is not valid UTF-8: it goes wrong at byte {at}."),
    )
}

fn too_deep(at: usize, depth_max: usize) -> ApiError {
    unreadable(
        "json_too_deep",
        format!("More than {depth_max} brackets and braces are open at byte {at}."),
    )
}

fn unreadable(code: &'static str, detail: String) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        code,
        detail,
    )
}
