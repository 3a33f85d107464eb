//! What the errors of object stores mean: S3 and what speaks it, Azure, Google.
//!
//! The library tells most of it in texts only, so words of the stores are looked for in them. What is
//! told to whom, and whether it is tried again, is for those who asked.

#![forbid(unsafe_code)]

use object_store::Error;
use object_store::client::HttpError;
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
const ELSEWHERE: [&str; 5] = [
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

/// What an error means.
#[derive(Clone, Copy, Debug)]
pub enum Meaning<'a> {
    /// No answer came.
    Unanswered(&'a HttpError),
    /// The bucket is in another region, or at another address.
    Elsewhere,
    /// There is no such bucket.
    NoBucket,
    /// The store does not know who asks.
    NotKnown,
    /// The key that the object is encrypted with cannot be used.
    NoKey,
    /// It is known who asks, and not let.
    Denied,
    /// There is no such object, though there is a bucket.
    Absent,
    /// It will be better in a while.
    Busy,
    /// Anything else; the status says more, if there is one.
    Other,
}

impl<'a> Meaning<'a> {
    /// That of an error.
    #[must_use]
    pub fn of(error: &'a Error) -> Self {
        if let Some(error) = in_chain(error) {
            return Self::Unanswered(error);
        }
        let said = error.to_string();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let status = status_in(&said);
        // First, as its text has the object's name, which may be any of the words.
        if matches!(error, Error::NotFound { .. }) && !says(&NO_BUCKET) {
            Self::Absent
        } else if says(&ELSEWHERE) {
            Self::Elsewhere
        } else if says(&NO_BUCKET) {
            Self::NoBucket
        } else if says(&NOT_KNOWN) {
            Self::NotKnown
        } else if says(&NO_KEY) {
            Self::NoKey
        } else if matches!(error, Error::PermissionDenied { .. }) || status == Some(403) {
            Self::Denied
        } else if says(&BUSY) || matches!(status, Some(408 | 429 | 500..)) {
            Self::Busy
        } else {
            Self::Other
        }
    }
}

/// The status that the store answered with.
#[must_use]
pub fn status(error: &Error) -> Option<u16> {
    status_in(&error.to_string())
}

/// The store's own word for what is wrong, where it has one.
#[must_use]
pub fn code(error: &Error) -> Option<String> {
    let said = error.to_string();
    let (_, rest) = said.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    Some(code.to_owned())
}

/// The first of a kind among an error and its causes.
pub fn in_chain<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.filter_map(|error| error.downcast_ref()).next()
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

    fn absent(said: &str) -> Error {
        Error::NotFound {
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

    #[test]
    fn an_error_means_what_the_store_says() {
        let table = [
            (generic("status code: 301"), "Elsewhere", Some(301)),
            (absent("<Code>NoSuchBucket</Code>"), "NoBucket", None),
            (generic("status code: 401"), "NotKnown", Some(401)),
            (
                denied("status code: 403 <Code>SignatureDoesNotMatch</Code>"),
                "NotKnown",
                Some(403),
            ),
            (
                generic("status code: 400 <Code>KMS.DisabledException</Code>"),
                "NoKey",
                Some(400),
            ),
            (denied("no"), "Denied", None),
            (generic("status code: 403"), "Denied", Some(403)),
            (absent("status code: 404"), "Absent", Some(404)),
            (absent("KMS. is no such object"), "Absent", None),
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
        for (error, meaning, expected) in table {
            let found = format!("{:?}", Meaning::of(&error));
            assert_eq!(
                (found.as_str(), status(&error)),
                (meaning, expected),
                "{error}"
            );
        }
    }

    #[test]
    fn what_has_no_answer_has_no_other_meaning() {
        let source = HttpError::new(HttpErrorKind::Timeout, generic("status code: 503"));
        let error = Error::Generic {
            store: "S3",
            source: Box::new(source),
        };
        assert!(matches!(Meaning::of(&error), Meaning::Unanswered(_)));
    }

    #[test]
    fn a_stores_own_word_is_found() {
        let said = "<Error><Code>AccessDenied</Code><Message>m</Message></Error>";
        assert_eq!(code(&generic(said)).as_deref(), Some("AccessDenied"));
        assert_eq!(code(&generic("none")), None);
    }
}
