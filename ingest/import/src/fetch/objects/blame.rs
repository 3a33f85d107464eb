//! What a store's errors mean, and what to do.

use super::http::NoCredentials;
use super::place::Place;
use millrace_sources::FetchError;
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as StdError;

/// The credentials are wrong, in the words of S3, Azure and Google.
const NOT_KNOWN: [&str; 11] = [
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidSecurity",
    "InvalidToken",
    "ExpiredToken",
    "TokenRefreshRequired",
    "AuthenticationFailed",
    "AuthenticationRequired",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "invalid_grant",
];
/// There is no such bucket.
const NO_BUCKET: [&str; 4] = [
    "NoSuchBucket",
    "InvalidBucketName",
    "ContainerNotFound",
    "InvalidResourceName",
];
/// The bucket is elsewhere.
const ELSEWHERE: [&str; 4] = [
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraint",
    "incorrectly configured region",
];

/// What an error means, for those who asked for this.
pub(super) fn fault(place: &Place, error: &Error, what: &str) -> FetchError {
    let service = place.service.name();
    let finally = |message: String| FetchError::Final { message };
    if in_chain::<NoCredentials>(error).is_some() {
        let variables = place.service.variables();
        return finally(format!(
            "there are no credentials in the environment; set {variables}"
        ));
    }
    if let Some(error) = in_chain::<HttpError>(error) {
        return FetchError::again(match error.kind() {
            HttpErrorKind::Connect => format!("{service} could not be reached"),
            HttpErrorKind::Timeout => format!("{service} did not answer in time"),
            _ => "the transfer broke off".to_owned(),
        });
    }
    if matches!(error, Error::Precondition { .. }) {
        return changed(what);
    }
    let said = error.to_string();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let answer = answer(&said);
    if says(&ELSEWHERE) {
        return finally(format!(
            "the bucket {:?} is elsewhere{answer}. Check {}",
            place.bucket,
            place.service.whereabouts()
        ));
    }
    if says(&NO_BUCKET) {
        return finally(format!(
            "{service} has no bucket {:?}{answer}. Check its name, and {}",
            place.bucket,
            place.service.whereabouts()
        ));
    }
    if says(&NOT_KNOWN) || status(&said) == Some(401) {
        return finally(format!(
            "{service} does not accept the credentials{answer}. Check {}",
            place.service.variables()
        ));
    }
    if matches!(error, Error::PermissionDenied { .. }) || status(&said) == Some(403) {
        return finally(format!(
            "{service} does not let these credentials do that{answer}. They have to list and read {}; check {}",
            place.url,
            place.service.variables()
        ));
    }
    if matches!(error, Error::NotFound { .. }) {
        return finally(format!("{what} is not there any more{answer}"));
    }
    match status(&said) {
        Some(408 | 429 | 500..) => {
            FetchError::again(format!("{service} is busy or out of order{answer}"))
        }
        _ => finally(said),
    }
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

fn in_chain<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.filter_map(|error| error.downcast_ref()).next()
}

/// The status and the store's own word, in brackets.
fn answer(said: &str) -> String {
    let code = said.split_once("<Code>").and_then(|(_, rest)| {
        let (code, _) = rest.split_once("</Code>")?;
        Some(code)
    });
    match (status(said), code) {
        (Some(status), Some(code)) => format!(" ({status} {code})"),
        (Some(status), None) => format!(" ({status})"),
        (None, Some(code)) => format!(" ({code})"),
        (None, None) => String::new(),
    }
}

/// The library tells statuses in its texts only.
fn status(said: &str) -> Option<u16> {
    let (_, after) = said.split_once("status code: ")?;
    after.get(..3)?.parse().ok()
}
