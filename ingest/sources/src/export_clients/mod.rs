//! Clients of export APIs: requests, and checks that a transfer is complete.

mod amplitude;
mod gzip;
mod mixpanel;
mod range;
mod rate_limit;
mod zip;

pub use amplitude::{AmplitudeExport, AmplitudeSettings};
pub use mixpanel::{MixpanelCredentials, MixpanelExport, MixpanelSettings};
pub use rate_limit::RateLimit;

use crate::{FetchError, Transfer};
use reqwest::header::RETRY_AFTER;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use std::io::{self, Write};
use std::time::Duration;

/// Most characters of an error's text that are shown.
const SHOWN_CHARS: usize = 300;

/// An invalid setting of an export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportSettingsError {
    /// A text is not a day of the calendar.
    #[error("{0:?} is not a day; write it as in 2024-05-31")]
    Day(String),
    /// The last day is before the first.
    #[error("the export would end on {until}, before it begins on {from}")]
    Order {
        /// First day.
        from: String,
        /// Last day.
        until: String,
    },
    /// A part has no days or hours.
    #[error("a part must have at least one day or hour")]
    EmptyParts,
    /// The URL of the service is invalid.
    #[error("{0:?} is not an address of a service; write it as in https://data.mixpanel.com")]
    Url(String),
}

/// Parses a base URL, to which paths can be added.
fn base_url(text: &str) -> Result<Url, ExportSettingsError> {
    let invalid = || ExportSettingsError::Url(text.to_owned());
    let url = Url::parse(text).map_err(|_| invalid())?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    is_http.then_some(url).ok_or_else(invalid)
}

/// Appends a path to a base URL.
fn with_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

/// Sends a request and waits for the response.
async fn send(transfer: &Transfer, request: RequestBuilder) -> Result<Response, FetchError> {
    let response = transfer.head(request.send()).await?;
    response.map_err(|error| broken(&error))
}

/// Passes the pieces of a response to `take`, to its end.
async fn receive(
    transfer: &Transfer,
    mut response: Response,
    mut take: impl FnMut(&[u8]) -> Result<(), FetchError>,
) -> Result<(), FetchError> {
    loop {
        let read = transfer.piece(response.chunk()).await?;
        match read.map_err(|error| broken(&error))? {
            Some(bytes) => take(&bytes)?,
            None => return Ok(()),
        }
    }
}

/// Error for a response that is no part.
async fn refused(transfer: &Transfer, response: Response, hint: &str) -> FetchError {
    let status = response.status();
    let after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    // Only seconds are read: a date would need the server's clock.
    let after = after
        .and_then(|text| text.trim().parse().ok())
        .map(Duration::from_secs);
    let mut text = Vec::new();
    let _ = receive(transfer, response, |bytes| {
        let wanted = (8 * SHOWN_CHARS).saturating_sub(text.len());
        text.extend_from_slice(bytes.get(..wanted.min(bytes.len())).unwrap_or_default());
        Ok(())
    })
    .await;
    let text: String = String::from_utf8_lossy(&text)
        .trim()
        .chars()
        .take(SHOWN_CHARS)
        .collect();
    let mut message = format!("The service answered {status}");
    if !text.is_empty() {
        message += &format!(": {text}");
    }
    let retryable = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    if status.is_server_error() || retryable.contains(&status) {
        return FetchError::Retryable { after, message };
    }
    let credentials = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
    let hint = if credentials.contains(&status) {
        "Check the credentials and what they may read."
    } else {
        hint
    };
    FetchError::Permanent {
        message: format!("{message}. {hint}"),
    }
}

/// Error for a transfer that failed; it names no address, which may contain secrets.
fn broken(error: &reqwest::Error) -> FetchError {
    FetchError::retryable(match error {
        error if error.is_connect() => "The service could not be reached.",
        error if error.is_timeout() => "The service did not answer in time.",
        _ => "The transfer broke off.",
    })
}

/// File that a part is written to.
type Sink<'a> = &'a mut (dyn Write + Send);

/// Converts the result of a write to the staging folder.
fn write_result(outcome: io::Result<()>) -> Result<(), FetchError> {
    outcome.map_err(FetchError::Io)
}
