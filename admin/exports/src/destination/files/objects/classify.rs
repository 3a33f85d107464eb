//! Classifies errors of object stores, in words for customers: what to change, or that the request
//! is retried. A server's own words are examined and never repeated: it may be anybody's server,
//! and some repeat what they were sent.

use crate::error::ExportError;
use millrace_dial::DialError;
use millrace_objects::{StoreErrorKind, code, in_chain, status};
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use std::io::ErrorKind;

/// Names of a store and its settings, as customers know them.
#[derive(Clone, Debug)]
pub(super) struct StoreLabels {
    /// Name of the service, such as `S3`.
    pub(super) service: &'static str,
    /// Field that names the bucket.
    pub(super) bucket_field: &'static str,
    /// Name of the bucket.
    pub(super) bucket: String,
    /// Fields that have the credentials.
    pub(super) credentials: &'static str,
    /// Fields that say where the server is.
    pub(super) location: &'static str,
}

impl StoreLabels {
    pub(super) fn classify(&self, error: &Error) -> ExportError {
        let Self {
            service,
            bucket_field,
            bucket,
            credentials,
            location,
        } = self;
        ExportError::permanent(match StoreErrorKind::of(error) {
            StoreErrorKind::Unanswered(transport) => return self.transport(transport),
            StoreErrorKind::WrongRegion => {
                format!("The bucket {bucket:?} is not where {location} says. Change that.")
            }
            StoreErrorKind::NoBucket => {
                format!("{service} has no {bucket:?}. Create it, or change {bucket_field}.")
            }
            StoreErrorKind::InvalidCredentials => {
                format!("{service} does not accept the credentials. Give {credentials} again.")
            }
            StoreErrorKind::KmsKey => {
                format!("{service} cannot use the key for encryption. Change kms_key_id.")
            }
            StoreErrorKind::Denied => format!(
                "{service} does not let these credentials do that in {bucket:?}. Grant them the \
                 rights to list, read, write and delete."
            ),
            StoreErrorKind::Busy => {
                let status = status(error).map(|status| format!(" ({status})"));
                let status = status.unwrap_or_default();
                return ExportError::retryable(format!(
                    "{service} is busy or out of order{status}."
                ));
            }
            StoreErrorKind::NotFound | StoreErrorKind::Other => match status(error) {
                Some(status) => {
                    let word = known_word(error).map(|word| format!(" {word}"));
                    let word = word.unwrap_or_default();
                    format!("{service} refused a request ({status}{word}). Check the settings.")
                }
                None => {
                    let message = format!("{service} did not answer as it should.");
                    return ExportError::retryable(message);
                }
            },
        })
    }

    fn transport(&self, error: &HttpError) -> ExportError {
        let Self {
            service, location, ..
        } = self;
        let message = match in_chain::<DialError>(error) {
            Some(DialError::NoAddress) => {
                format!("The server's name leads to no address that can be used. Check {location}.")
            }
            Some(DialError::Connect(kind)) => {
                let why = why_unconnected(*kind);
                format!("No connection could be made to {service}: {why}. Check {location}.")
            }
            Some(DialError::TimedOut) => format!("{service} did not answer in time."),
            None if error.kind() == HttpErrorKind::Decode => {
                format!("{service} did not answer as it should.")
            }
            None => format!("The connection to {service} broke."),
        };
        ExportError::retryable(message)
    }
}

/// Error codes of S3, Azure and Google for invalid requests. Only these words of a server are
/// repeated.
const KNOWN_WORDS: [&str; 23] = [
    "AccessControlListNotSupported",
    "AccountIsDisabled",
    "BadRequest",
    "EntityTooLarge",
    "EntityTooSmall",
    "InvalidArgument",
    "InvalidEncryptionAlgorithmError",
    "InvalidObjectState",
    "InvalidPart",
    "InvalidRequest",
    "InvalidStorageClass",
    "InvalidURI",
    "KeyTooLongError",
    "MalformedXML",
    "MethodNotAllowed",
    "MissingContentLength",
    "MissingSecurityHeader",
    "NotImplemented",
    "PreconditionFailed",
    "QuotaExceeded",
    "RequestTimeTooSkewed",
    "TooManyBuckets",
    "UnsupportedHeader",
];

fn known_word(error: &Error) -> Option<&'static str> {
    let said = code(error)?;
    KNOWN_WORDS.into_iter().find(|word| *word == said)
}

/// Reason for a failed connection, in words for customers.
fn why_unconnected(kind: ErrorKind) -> String {
    match kind {
        // A failed TLS handshake has this kind.
        ErrorKind::InvalidData => "its certificate is not trusted, or it speaks no TLS".to_owned(),
        ErrorKind::Other => "for no reason that is known".to_owned(),
        kind => kind.to_string(),
    }
}

/// Returns true if the store did not answer.
pub(super) fn is_unanswered(error: &Error) -> bool {
    matches!(StoreErrorKind::of(error), StoreErrorKind::Unanswered(_))
}

/// Returns true if the bucket exists, and the file does not.
pub(super) fn is_not_found(error: &Error) -> bool {
    matches!(StoreErrorKind::of(error), StoreErrorKind::NotFound)
}

/// Returns true if the credentials are known and access is denied, be it by the encryption key.
pub(super) fn is_denied(error: &Error) -> bool {
    match StoreErrorKind::of(error) {
        StoreErrorKind::Denied => true,
        StoreErrorKind::KmsKey => status(error) == Some(403),
        _ => false,
    }
}
