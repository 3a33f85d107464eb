//! Classifies a store's errors: retry or give up, with advice for the operator.

use super::http::NoCredentials;
use super::location::ObjectLocation;
use millrace_objects::{StoreErrorKind, code, in_chain, status};
use millrace_sources::FetchError;
use object_store::Error;
use object_store::client::HttpErrorKind;

impl ObjectLocation {
    /// Turns an error of the store into one of the fetch; `what` names the object or listing.
    pub(super) fn classify(&self, error: &Error, what: &str) -> FetchError {
        let (service, variables) = (self.service.name(), self.service.variables());
        if in_chain::<NoCredentials>(error).is_some() {
            let message = format!("there are no credentials in the environment; set {variables}");
            return FetchError::Permanent { message };
        }
        if matches!(error, Error::Precondition { .. }) {
            return changed(what);
        }
        let (bucket, whereabouts) = (&self.bucket, self.service.location_settings());
        let status_text = status_text(error);
        let message = match StoreErrorKind::of(error) {
            StoreErrorKind::Unanswered(error) => {
                return FetchError::retryable(match error.kind() {
                    HttpErrorKind::Connect => format!("{service} could not be reached"),
                    HttpErrorKind::Timeout => format!("{service} did not answer in time"),
                    _ => "the transfer broke off".to_owned(),
                });
            }
            StoreErrorKind::Busy => {
                return FetchError::retryable(format!(
                    "{service} is busy or out of order{status_text}"
                ));
            }
            StoreErrorKind::WrongRegion => {
                format!("the bucket {bucket:?} is elsewhere{status_text}. Check {whereabouts}")
            }
            StoreErrorKind::NoBucket => {
                format!(
                    "{service} has no bucket {bucket:?}{status_text}. Check its name, and {whereabouts}"
                )
            }
            StoreErrorKind::InvalidCredentials => {
                format!("{service} does not accept the credentials{status_text}. Check {variables}")
            }
            StoreErrorKind::KmsKey => format!(
                "{service} cannot use the key that {what} is encrypted with{status_text}. Grant its use to \
                 these credentials"
            ),
            StoreErrorKind::Denied => format!(
                "{service} does not let these credentials do that{status_text}. They have to list and read \
                 {}; check {variables}",
                self.url
            ),
            StoreErrorKind::NotFound => format!("{what} is not there any more{status_text}"),
            StoreErrorKind::Other => error.to_string(),
        };
        FetchError::Permanent { message }
    }
}

/// Error for an object that has changed since it was listed.
pub(super) fn changed(what: &str) -> FetchError {
    FetchError::Permanent {
        message: format!(
            "{what} has changed since it was listed. Run the same command again: it gets the new one"
        ),
    }
}

/// Returns true if the store sent the whole object instead of the requested range.
pub(super) fn ignores_ranges(error: &Error) -> bool {
    error.to_string().contains("non-partial response")
}

/// Status and error code of the store's response, in brackets.
fn status_text(error: &Error) -> String {
    match (status(error), code(error)) {
        (Some(status), Some(code)) => format!(" ({status} {code})"),
        (Some(status), None) => format!(" ({status})"),
        (None, Some(code)) => format!(" ({code})"),
        (None, None) => String::new(),
    }
}
