//! Object stores: S3 and compatible ones, Azure, Google. Sends the requests of the client library,
//! and classifies its errors.
//!
//! The client library reports most details as text only, so the stores' own words are searched for
//! in it. The caller decides who is told what, and whether a request is tried again.

#![forbid(unsafe_code)]

mod connector;

pub use connector::{StoreConnector, StoreHook};

use object_store::Error;
use object_store::client::HttpError;
use std::error::Error as StdError;

/// Texts of S3, Azure and Google for wrong credentials.
const INVALID_CREDENTIALS: [&str; 15] = [
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
/// Texts for a bucket that does not exist.
const NO_BUCKET: [&str; 6] = [
    "NoSuchBucket",
    "InvalidBucketName",
    "ContainerNotFound",
    "ContainerBeingDeleted",
    "InvalidResourceName",
    "The specified bucket does not exist",
];
/// Texts for a bucket in another region or at another address.
const WRONG_REGION: [&str; 5] = [
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraint",
    "incorrectly configured region",
    "status code: 301",
];
/// Texts of Google's and Amazon's key management services.
const KMS_KEY: [&str; 3] = ["KMS.", "KmsKey", "kms:"];
/// Texts for temporary failures that the status does not show: of the stores, of S3's answers to
/// requests that met others (409), and of Amazon's key management service.
const BUSY: [&str; 13] = [
    "SlowDown",
    "InternalError",
    "RequestTimeout",
    "ServerBusy",
    "OperationTimedOut",
    "rateLimitExceeded",
    "userRateLimitExceeded",
    "OperationAborted",
    "ConditionalRequestConflict",
    "ThrottlingException",
    "KMSInternalException",
    "DependencyTimeoutException",
    "KeyUnavailableException",
];

/// Kind of an object store's error.
#[derive(Clone, Copy, Debug)]
pub enum StoreErrorKind<'a> {
    /// The store did not answer.
    Unanswered(&'a HttpError),
    /// The bucket is in another region, or at another address.
    WrongRegion,
    /// The bucket does not exist.
    NoBucket,
    /// The store does not accept the credentials.
    InvalidCredentials,
    /// The key that the object is encrypted with cannot be used.
    KmsKey,
    /// The credentials are known, and access is denied.
    Denied,
    /// The bucket exists, and the object does not.
    NotFound,
    /// The store is busy, or failed for now: a retry may help.
    Busy,
    /// Anything else; the status says more, if there is one.
    Other,
}

impl<'a> StoreErrorKind<'a> {
    /// Classifies an error.
    #[must_use]
    pub fn of(error: &'a Error) -> Self {
        if let Some(error) = in_chain(error) {
            return Self::Unanswered(error);
        }
        let said = error.to_string();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let status = status_in(&said);
        // Of an answer with a code the code alone: the rest has the object's name, as any text may.
        let code = code_in(&said).unwrap_or(&said);
        let is_busy = BUSY.iter().any(|word| code.contains(word));
        // First, as its text has the object's name, which may be any of the words.
        if matches!(error, Error::NotFound { .. }) && !says(&NO_BUCKET) {
            Self::NotFound
        } else if is_busy || matches!(status, Some(408 | 429 | 500..)) {
            // Before what needs a change: a busy key management service is no wrong key.
            Self::Busy
        } else if says(&WRONG_REGION) {
            Self::WrongRegion
        } else if says(&NO_BUCKET) {
            Self::NoBucket
        } else if says(&INVALID_CREDENTIALS) {
            Self::InvalidCredentials
        } else if says(&KMS_KEY) {
            Self::KmsKey
        } else if matches!(error, Error::PermissionDenied { .. }) || status == Some(403) {
            Self::Denied
        } else {
            Self::Other
        }
    }
}

/// Status of the store's answer, if there was one.
#[must_use]
pub fn status(error: &Error) -> Option<u16> {
    status_in(&error.to_string())
}

/// The store's own error code, where its answer has one.
#[must_use]
pub fn code(error: &Error) -> Option<String> {
    code_in(&error.to_string()).map(str::to_owned)
}

/// First error of a type among an error and its causes.
pub fn in_chain<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.filter_map(|error| error.downcast_ref()).next()
}

fn code_in(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code)
}

fn status_in(said: &str) -> Option<u16> {
    let (_, after) = said.split_once("status code: ")?;
    after.get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::client::HttpErrorKind;

    fn generic(said: &str) -> Error {
        Error::Generic {
            store: "S3",
            source: said.into(),
        }
    }

    fn not_found(said: &str) -> Error {
        Error::NotFound {
            path: "a".to_owned(),
            source: said.into(),
        }
    }

    fn conflict(said: &str) -> Error {
        Error::AlreadyExists {
            path: "a".to_owned(),
            source: said.into(),
        }
    }

    fn denied(said: &str) -> Error {
        Error::PermissionDenied {
            path: "a".to_owned(),
            source: said.into(),
        }
    }

    /// Checks the kinds and the status of errors.
    fn check<const ROWS: usize>(table: [(Error, &str, Option<u16>); ROWS]) {
        for (error, kind, expected) in table {
            let found = format!("{:?}", StoreErrorKind::of(&error));
            assert_eq!(
                (found.as_str(), status(&error)),
                (kind, expected),
                "{error}"
            );
        }
    }

    #[test]
    fn each_error_is_classified_by_its_text_and_status() {
        let table = [
            (generic("status code: 301"), "WrongRegion", Some(301)),
            (not_found("<Code>NoSuchBucket</Code>"), "NoBucket", None),
            (generic("status code: 401"), "InvalidCredentials", Some(401)),
            (
                denied("status code: 403 <Code>SignatureDoesNotMatch</Code>"),
                "InvalidCredentials",
                Some(403),
            ),
            (
                generic("status code: 400 <Code>KMS.DisabledException</Code>"),
                "KmsKey",
                Some(400),
            ),
            (denied("no"), "Denied", None),
            (generic("status code: 403"), "Denied", Some(403)),
            (not_found("status code: 404"), "NotFound", Some(404)),
            (not_found("KMS. is no such object"), "NotFound", None),
            (not_found("SlowDown is no such object"), "NotFound", None),
            (
                denied(
                    "PUT http://s/b/SlowDown/a status code: 403 <Code>AccessDenied</Code> SlowDown/a",
                ),
                "Denied",
                Some(403),
            ),
            (generic("status code: 503"), "Busy", Some(503)),
            (generic("status code: 429"), "Busy", Some(429)),
            (
                generic("status code: 400 <Code>RequestTimeout</Code>"),
                "Busy",
                Some(400),
            ),
            (generic("status code: 418"), "Other", Some(418)),
            (generic("what is this"), "Other", None),
        ];
        check(table);
    }

    #[test]
    fn busy_services_are_busy_whatever_else_they_say() {
        let table = [
            (
                generic("status code: 400 <Code>KMS.ThrottlingException</Code>"),
                "Busy",
                Some(400),
            ),
            (
                denied("status code: 403 <Code>KMS.ThrottlingException</Code>"),
                "Busy",
                Some(403),
            ),
            (
                generic("status code: 400 <Code>KMS.KeyUnavailableException</Code>"),
                "Busy",
                Some(400),
            ),
            (
                generic("status code: 503 <Code>KMS.KMSInternalException</Code>"),
                "Busy",
                Some(503),
            ),
            (
                generic("status code: 503 <Code>KMS.DisabledException</Code>"),
                "Busy",
                Some(503),
            ),
            (
                conflict("status code: 409 <Code>OperationAborted</Code>"),
                "Busy",
                Some(409),
            ),
            (
                conflict("status code: 409 <Code>ConditionalRequestConflict</Code>"),
                "Busy",
                Some(409),
            ),
            (
                conflict("status code: 409 <Code>BucketNotEmpty</Code>"),
                "Other",
                Some(409),
            ),
            (
                denied("status code: 403 userRateLimitExceeded"),
                "Busy",
                Some(403),
            ),
        ];
        check(table);
    }

    #[test]
    fn an_unanswered_request_has_no_other_kind() {
        let source = HttpError::new(HttpErrorKind::Timeout, generic("status code: 503"));
        let error = Error::Generic {
            store: "S3",
            source: Box::new(source),
        };
        assert!(matches!(
            StoreErrorKind::of(&error),
            StoreErrorKind::Unanswered(_)
        ));
    }

    #[test]
    fn the_stores_own_code_is_found() {
        let said = "<Error><Code>AccessDenied</Code><Message>m</Message></Error>";
        assert_eq!(code(&generic(said)).as_deref(), Some("AccessDenied"));
        assert_eq!(code(&generic("none")), None);
    }
}
