//! HTTP calls that are tried until it is known whether they succeeded.

use super::dialler::Dialler;
use crate::error::{ExportError, Outlook};
use backon::{ExponentialBuilder, Retryable as _};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use std::time::Duration;

/// How long a server may take and how often it is asked.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// For the whole of one request.
    pub timeout: Duration,
    /// Before the second try; doubled before each further one.
    pub delay_min: Duration,
    /// The longest wait, also if the server asks for more.
    pub delay_max: Duration,
    /// How often a request is sent at most.
    pub tries_max: usize,
    /// For a statement or a load that the server works at by itself.
    pub work_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            delay_min: Duration::from_secs(1),
            delay_max: Duration::from_secs(120),
            tries_max: 6,
            work_max: Duration::from_secs(3_600),
        }
    }
}

/// Why a try failed.
pub(crate) struct Failed {
    pub(crate) error: ExportError,
    /// When the server wants to be asked again.
    pub(crate) retry_after: Option<Duration>,
}

impl From<ExportError> for Failed {
    fn from(error: ExportError) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}

/// Tries something until it succeeds, cannot, or was tried often enough.
pub(crate) async fn retried<T, F: Future<Output = Result<T, Failed>>>(
    pace: &Pace,
    attempt: impl FnMut() -> F,
) -> Result<T, ExportError> {
    let max = pace.delay_max;
    let delays = ExponentialBuilder::default()
        .with_min_delay(pace.delay_min)
        .with_max_delay(max)
        .with_max_times(pace.tries_max.saturating_sub(1))
        .with_jitter();
    let done = attempt
        .retry(delays)
        .when(|failed| failed.error.outlook == Outlook::Retry)
        // After the last try the server is not asked again, whatever it wishes.
        .adjust(|failed, delay| Some(failed.retry_after.unwrap_or(delay?).min(max)))
        .await;
    done.map_err(|failed| failed.error)
}

/// Connects to the server of a URL, and says nothing.
pub(crate) async fn reach(
    dialler: &dyn Dialler,
    url: &Url,
    pace: &Pace,
) -> Result<(), ExportError> {
    let host = url.host_str().unwrap_or_default();
    // Addresses of version 6 have brackets in URLs only.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(443);
    let reached = tokio::time::timeout(pace.timeout, dialler.connect(host, port)).await;
    reached.unwrap_or_else(|_| Err(late())).map(drop)
}

/// What became of a request that was not answered; no address is named.
pub(crate) fn unanswered(error: &reqwest::Error) -> ExportError {
    if error.is_timeout() {
        return late();
    }
    ExportError::retry("The server could not be reached, or cut the connection.")
}

fn late() -> ExportError {
    ExportError::retry("The server did not answer in time.")
}

/// Whether the same request may succeed later.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    let passing = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_server_error() || passing.contains(&status)
}

/// Seconds; of dates we would have to know the server's clock.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
