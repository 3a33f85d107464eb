//! HTTP calls that are retried until their outcome is known.

use super::dialler::Dialler;
use crate::error::{ExportError, ExportErrorKind};
use backon::{ExponentialBuilder, Retryable as _};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use std::time::Duration;

/// Time limits and retries of calls to a server.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Time limit of one request.
    pub timeout: Duration,
    /// Pause before the first retry; doubled before each further one.
    pub delay_min: Duration,
    /// Longest pause, even if the server asks for a longer one.
    pub delay_max: Duration,
    /// Times that a request is sent at most.
    pub tries_max: usize,
    /// Time limit of a statement or a load that the server carries out by itself.
    pub work_max: Duration,
}

impl Default for RetryPolicy {
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

/// Error of a try, and the pause that the server asked for.
pub(crate) struct FailedTry {
    pub(crate) error: ExportError,
    /// Pause after which the server wants the request again.
    pub(crate) retry_after: Option<Duration>,
}

impl From<ExportError> for FailedTry {
    fn from(error: ExportError) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}

/// Retries an attempt until it succeeds, fails for good, or was tried often enough.
pub(crate) async fn retried<T, F: Future<Output = Result<T, FailedTry>>>(
    retry_policy: &RetryPolicy,
    attempt: impl FnMut() -> F,
) -> Result<T, ExportError> {
    let max = retry_policy.delay_max;
    let delays = ExponentialBuilder::default()
        .with_min_delay(retry_policy.delay_min)
        .with_max_delay(max)
        .with_max_times(retry_policy.tries_max.saturating_sub(1))
        .with_jitter();
    let done = attempt
        .retry(delays)
        .when(|failed| failed.error.kind == ExportErrorKind::Retryable)
        // No try follows the last one, even if the server asks for it.
        .adjust(|failed, delay| Some(failed.retry_after.unwrap_or(delay?).min(max)))
        .await;
    done.map_err(|failed| failed.error)
}

/// Connects to the server of a URL, and sends nothing.
pub(crate) async fn reach(
    dialler: &dyn Dialler,
    url: &Url,
    retry_policy: &RetryPolicy,
) -> Result<(), ExportError> {
    let host = url.host_str().unwrap_or_default();
    // Only URLs have brackets around addresses of version 6.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(443);
    let reached = tokio::time::timeout(retry_policy.timeout, dialler.connect(host, port)).await;
    reached.unwrap_or_else(|_| Err(timed_out())).map(drop)
}

/// Error for a request that was not answered; it names no address.
pub(crate) fn unanswered(error: &reqwest::Error) -> ExportError {
    if error.is_timeout() {
        return timed_out();
    }
    ExportError::retryable("The server could not be reached, or cut the connection.")
}

fn timed_out() -> ExportError {
    ExportError::retryable("The server did not answer in time.")
}

/// Returns true if the same request may succeed later.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    let passing = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_server_error() || passing.contains(&status)
}

/// Parses `Retry-After` in seconds; for dates the server's clock would have to be known.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
