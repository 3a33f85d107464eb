//! Export APIs: what they are asked, and how a transfer that broke off is told from one that is whole.

mod amplitude;
mod gzip;
mod mixpanel;
mod pace;
mod range;
mod zip;

pub use amplitude::{AmplitudeExport, AmplitudeSettings};
pub use mixpanel::{MixpanelCredentials, MixpanelExport, MixpanelSettings};
pub use pace::Pace;

use crate::{FetchError, Transfer};
use reqwest::header::RETRY_AFTER;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use std::io::{self, Write};
use std::time::Duration;

/// How much of an error's text is shown.
const SHOWN_CHARS: usize = 300;

/// A setting of an export that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportSettingsError {
    /// No day of the calendar.
    #[error("{0:?} is no day; write it as in 2024-05-31")]
    Day(String),
    /// The end is before the beginning.
    #[error("the export would end on {until}, before it begins on {from}")]
    Order {
        /// The first day.
        from: String,
        /// The last day.
        until: String,
    },
    /// A part of no days or hours.
    #[error("a part must have at least one day or hour")]
    EmptyParts,
    /// The service's address.
    #[error("{0:?} is no address of a service; write it as in https://data.mixpanel.com")]
    Url(String),
}

/// A base URL, to which paths can be added.
fn base_url(text: &str) -> Result<Url, ExportSettingsError> {
    let invalid = || ExportSettingsError::Url(text.to_owned());
    let url = Url::parse(text).map_err(|_| invalid())?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    is_http.then_some(url).ok_or_else(invalid)
}

/// A path below a base URL.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

/// Waits for the answer to a request.
async fn ask(transfer: &Transfer, request: RequestBuilder) -> Result<Response, FetchError> {
    let answered = transfer.head(request.send()).await?;
    answered.map_err(|error| broken(&error))
}

/// Hands on what a service sends, to the end of the answer.
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

/// What to do after an answer that is no part.
async fn refused(transfer: &Transfer, response: Response, hint: &str) -> FetchError {
    let status = response.status();
    let after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    // Seconds; of a date we would have to know the server's clock.
    let after = after
        .and_then(|text| text.trim().parse().ok())
        .map(Duration::from_secs);
    let mut text = Vec::new();
    let _ = receive(transfer, response, |bytes| {
        let room = (8 * SHOWN_CHARS).saturating_sub(text.len());
        text.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
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
    let passing = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    if status.is_server_error() || passing.contains(&status) {
        return FetchError::Again { after, message };
    }
    let credentials = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
    let hint = if credentials.contains(&status) {
        "Check the credentials and what they may read."
    } else {
        hint
    };
    FetchError::Final {
        message: format!("{message}. {hint}"),
    }
}

/// A transfer that failed; no address is named, as there may be secrets in it.
fn broken(error: &reqwest::Error) -> FetchError {
    FetchError::again(match error {
        error if error.is_connect() => "The service could not be reached.",
        error if error.is_timeout() => "The service did not answer in time.",
        _ => "The transfer broke off.",
    })
}

/// Where parts go.
type Sink<'a> = &'a mut (dyn Write + Send);

/// An error of the staging folder.
fn staged(outcome: io::Result<()>) -> Result<(), FetchError> {
    outcome.map_err(FetchError::Io)
}
