//! What went wrong, in words for customers: what to change, or that we try again. What a server says
//! is looked at and never repeated: it may be anybody's server, and some repeat what they were sent.

use crate::error::ExportError;
use millrace_dial::DialError;
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as StdError;

/// The credentials are wrong, in the words of S3, Azure and Google.
const NOT_KNOWN: [&str; 15] = [
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidSecurity",
    "InvalidToken",
    "ExpiredToken",
    "TokenRefreshRequired",
    "NotSignedUp",
    "AuthenticationFailed",
    "failed to authenticate the request",
    "AuthenticationRequired",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "invalid_grant",
    "<Code>Unauthorized",
    "status code: 401",
];
/// There is no such bucket.
const NO_BUCKET: [&str; 6] = [
    "NoSuchBucket",
    "InvalidBucketName",
    "ContainerNotFound",
    "ContainerBeingDeleted",
    "InvalidResourceName",
    "The specified bucket does not exist",
];
/// The bucket is elsewhere.
const OTHER_REGION: [&str; 5] = [
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraint",
    "incorrectly configured region",
    "status code: 301",
];
/// Google's and Amazon's key services.
const NO_KEY: [&str; 3] = ["KMS.", "KmsKey", "kms:"];
/// It will be better in a while, though the status does not say so.
const BUSY: [&str; 5] = [
    "SlowDown",
    "InternalError",
    "RequestTimeout",
    "ServerBusy",
    "OperationTimedOut",
];

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
        if let Some(transport) = in_chain::<HttpError>(error) {
            return self.transport(transport);
        }
        let said = error.to_string();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if says(&OTHER_REGION) {
            let message = format!("The bucket {bucket:?} is not where {place} says. Change that.");
            return ExportError::hopeless(message);
        }
        if says(&NO_BUCKET) {
            let message =
                format!("{service} has no {bucket:?}. Make it, or change {bucket_field}.");
            return ExportError::hopeless(message);
        }
        if says(&NOT_KNOWN) {
            let message =
                format!("{service} does not accept the credentials. Give {credentials} again.");
            return ExportError::hopeless(message);
        }
        if says(&NO_KEY) {
            let message =
                format!("{service} cannot use the key for encryption. Change kms_key_id.");
            return ExportError::hopeless(message);
        }
        if is_denied(error) {
            let message = format!(
                "{service} does not let these credentials do that in {bucket:?}. Grant them the \
                 rights to list, read, write and delete."
            );
            return ExportError::hopeless(message);
        }
        match status(&said) {
            Some(status @ (408 | 429 | 500..)) => {
                ExportError::retry(format!("{service} is busy or out of order ({status})."))
            }
            _ if says(&BUSY) => ExportError::retry(format!("{service} is busy or out of order.")),
            Some(status) => {
                let message =
                    format!("{service} refused a request ({status}). Check the settings.");
                ExportError::hopeless(message)
            }
            None => ExportError::retry(format!("{service} did not answer as it should.")),
        }
    }

    fn transport(&self, error: &HttpError) -> ExportError {
        let Self { service, place, .. } = self;
        let message = match in_chain::<DialError>(error) {
            Some(DialError::NoAddress) => {
                format!("The server's name leads to no address that can be used. Check {place}.")
            }
            Some(DialError::Connect(_)) => format!("No connection could be made to {service}."),
            Some(DialError::TimedOut) => format!("{service} did not answer in time."),
            None if error.kind() == HttpErrorKind::Decode => {
                format!("{service} did not answer as it should.")
            }
            None => format!("The connection to {service} broke."),
        };
        ExportError::retry(message)
    }
}

/// Whether no answer came at all.
pub(super) fn is_unanswered(error: &Error) -> bool {
    in_chain::<HttpError>(error).is_some()
}

/// Whether there is no such file, though there is a bucket.
pub(super) fn is_absent(error: &Error) -> bool {
    let said = error.to_string();
    matches!(error, Error::NotFound { .. }) && !NO_BUCKET.iter().any(|word| said.contains(word))
}

/// Whether it is known who asks, and not let.
pub(super) fn is_denied(error: &Error) -> bool {
    let said = error.to_string();
    let denied = matches!(error, Error::PermissionDenied { .. }) || status(&said) == Some(403);
    denied && !NOT_KNOWN.iter().any(|word| said.contains(word))
}

fn in_chain<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.filter_map(|error| error.downcast_ref()).next()
}

/// The library tells statuses in its texts only.
fn status(said: &str) -> Option<u16> {
    let (_, after) = said.split_once("status code: ")?;
    after.get(..3)?.parse().ok()
}
