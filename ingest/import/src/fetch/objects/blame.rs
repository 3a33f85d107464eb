//! What a store's errors mean, and what to do.

use super::http::NoCredentials;
use super::place::Place;
use millrace_objects::{Meaning, code, in_chain, status};
use millrace_sources::FetchError;
use object_store::Error;
use object_store::client::HttpErrorKind;

/// What an error means, for those who asked for this.
pub(super) fn fault(place: &Place, error: &Error, what: &str) -> FetchError {
    let (service, variables) = (place.service.name(), place.service.variables());
    if in_chain::<NoCredentials>(error).is_some() {
        let message = format!("there are no credentials in the environment; set {variables}");
        return FetchError::Final { message };
    }
    if matches!(error, Error::Precondition { .. }) {
        return changed(what);
    }
    let (bucket, whereabouts) = (&place.bucket, place.service.whereabouts());
    let answer = answer(error);
    let message = match Meaning::of(error) {
        Meaning::Unanswered(error) => {
            return FetchError::again(match error.kind() {
                HttpErrorKind::Connect => format!("{service} could not be reached"),
                HttpErrorKind::Timeout => format!("{service} did not answer in time"),
                _ => "the transfer broke off".to_owned(),
            });
        }
        Meaning::Busy => {
            return FetchError::again(format!("{service} is busy or out of order{answer}"));
        }
        Meaning::Elsewhere => {
            format!("the bucket {bucket:?} is elsewhere{answer}. Check {whereabouts}")
        }
        Meaning::NoBucket => {
            format!("{service} has no bucket {bucket:?}{answer}. Check its name, and {whereabouts}")
        }
        Meaning::NotKnown => {
            format!("{service} does not accept the credentials{answer}. Check {variables}")
        }
        Meaning::NoKey => format!(
            "{service} cannot use the key that {what} is encrypted with{answer}. Grant its use to \
             these credentials"
        ),
        Meaning::Denied => format!(
            "{service} does not let these credentials do that{answer}. They have to list and read \
             {}; check {variables}",
            place.url
        ),
        Meaning::Absent => format!("{what} is not there any more{answer}"),
        Meaning::Other => error.to_string(),
    };
    FetchError::Final { message }
}

/// Another one is there now.
pub(super) fn changed(what: &str) -> FetchError {
    FetchError::Final {
        message: format!(
            "{what} has changed since it was listed. Run the same command again: it gets the new one"
        ),
    }
}

/// Whether the store sent all, though it was asked for the rest.
pub(super) fn is_without_ranges(error: &Error) -> bool {
    error.to_string().contains("non-partial response")
}

/// The status and the store's own word, in brackets.
fn answer(error: &Error) -> String {
    match (status(error), code(error)) {
        (Some(status), Some(code)) => format!(" ({status} {code})"),
        (Some(status), None) => format!(" ({status})"),
        (None, Some(code)) => format!(" ({code})"),
        (None, None) => String::new(),
    }
}
