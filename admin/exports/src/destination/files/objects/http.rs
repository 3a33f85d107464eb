//! HTTP requests of object stores through the guard.

use millrace_dial::DialError;
use millrace_objects::StoreHook;
use object_store::client::{HttpError, HttpErrorKind};

/// Hook that bounds responses, and classifies errors of the guard.
#[derive(Clone, Debug)]
pub(super) struct GuardHook;

impl StoreHook for GuardHook {
    /// Bytes of a response at most: a page of keys has about a megabyte, a manifest less.
    const RESPONSE_BYTES_MAX: usize = 16 << 20;

    /// Drops the error's text, as it has URLs, which have signatures.
    fn failure(error: reqwest::Error) -> HttpError {
        match DialError::of(&error) {
            Some(error) => dial(error),
            // A request that may have arrived is sent again only if it is idempotent.
            None if error.is_decode() => HttpError::new(HttpErrorKind::Decode, Broken),
            None => HttpError::new(HttpErrorKind::Interrupted, Broken),
        }
    }

    fn no_url(_: url::ParseError) -> HttpError {
        dial(DialError::NoAddress)
    }
}

/// Converts an error of dialling. Refused addresses and names that do not resolve are not retried.
fn dial(error: DialError) -> HttpError {
    let kind = match error {
        DialError::NoAddress => HttpErrorKind::Unknown,
        DialError::Connect(_) => HttpErrorKind::Connect,
        DialError::TimedOut => HttpErrorKind::Timeout,
    };
    HttpError::new(kind, error)
}

#[derive(Debug, thiserror::Error)]
#[error("the connection broke")]
struct Broken;
