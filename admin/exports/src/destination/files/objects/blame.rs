//! What went wrong, in words for customers: what to change, or that we try again. What a server says
//! is looked at and never repeated: it may be anybody's server, and some repeat what they were sent.

use crate::error::ExportError;
use millrace_dial::DialError;
use millrace_objects::{Meaning, code, in_chain, status};
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use std::io::ErrorKind;

/// What is blamed, by the names that customers know it by.
#[derive(Clone, Debug)]
pub(super) struct Blame {
    /// `S3`, say.
    pub(super) service: &'static str,
    /// The field that names the bucket.
    pub(super) bucket_field: &'static str,
    /// The bucket.
    pub(super) bucket: String,
    /// The fields that hold the credentials.
    pub(super) credentials: &'static str,
    /// The fields that say where the server is.
    pub(super) place: &'static str,
}

impl Blame {
    pub(super) fn error(&self, error: &Error) -> ExportError {
        let Self {
            service,
            bucket_field,
            bucket,
            credentials,
            place,
        } = self;
        ExportError::hopeless(match Meaning::of(error) {
            Meaning::Unanswered(transport) => return self.transport(transport),
            Meaning::Elsewhere => {
                format!("The bucket {bucket:?} is not where {place} says. Change that.")
            }
            Meaning::NoBucket => {
                format!("{service} has no {bucket:?}. Make it, or change {bucket_field}.")
            }
            Meaning::NotKnown => {
                format!("{service} does not accept the credentials. Give {credentials} again.")
            }
            Meaning::NoKey => {
                format!("{service} cannot use the key for encryption. Change kms_key_id.")
            }
            Meaning::Denied => format!(
                "{service} does not let these credentials do that in {bucket:?}. Grant them the \
                 rights to list, read, write and delete."
            ),
            Meaning::Busy => {
                let status = status(error).map(|status| format!(" ({status})"));
                let status = status.unwrap_or_default();
                return ExportError::retry(format!("{service} is busy or out of order{status}."));
            }
            Meaning::Absent | Meaning::Other => match status(error) {
                Some(status) => {
                    let word = known_word(error).map(|word| format!(" {word}"));
                    let word = word.unwrap_or_default();
                    format!("{service} refused a request ({status}{word}). Check the settings.")
                }
                None => {
                    let message = format!("{service} did not answer as it should.");
                    return ExportError::retry(message);
                }
            },
        })
    }

    fn transport(&self, error: &HttpError) -> ExportError {
        let Self { service, place, .. } = self;
        let message = match in_chain::<DialError>(error) {
            Some(DialError::NoAddress) => {
                format!("The server's name leads to no address that can be used. Check {place}.")
            }
            Some(DialError::Connect(kind)) => {
                let why = why_unconnected(*kind);
                format!("No connection could be made to {service}: {why}. Check {place}.")
            }
            Some(DialError::TimedOut) => format!("{service} did not answer in time."),
            None if error.kind() == HttpErrorKind::Decode => {
                format!("{service} did not answer as it should.")
            }
            None => format!("The connection to {service} broke."),
        };
        ExportError::retry(message)
    }
}

/// Words of S3, Azure and Google for what is wrong with a request. Of what a server says only these are repeated.
const KNOWN_WORDS: [&str; 24] = [
    "AccessControlListNotSupported",
    "AccountIsDisabled",
    "BadRequest",
    "ConditionalRequestConflict",
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

/// Why there is no connection, for people.
fn why_unconnected(kind: ErrorKind) -> String {
    match kind {
        // So a handshake ends that does not come to one.
        ErrorKind::InvalidData => "its certificate is not trusted, or it speaks no TLS".to_owned(),
        ErrorKind::Other => "for no reason that is known".to_owned(),
        kind => kind.to_string(),
    }
}

/// Whether no answer came at all.
pub(super) fn is_unanswered(error: &Error) -> bool {
    matches!(Meaning::of(error), Meaning::Unanswered(_))
}

/// Whether there is no such file, though there is a bucket.
pub(super) fn is_absent(error: &Error) -> bool {
    matches!(Meaning::of(error), Meaning::Absent)
}

/// Whether it is known who asks, and not let, be it by the key for encryption.
pub(super) fn is_denied(error: &Error) -> bool {
    match Meaning::of(error) {
        Meaning::Denied => true,
        Meaning::NoKey => status(error) == Some(403),
        _ => false,
    }
}
