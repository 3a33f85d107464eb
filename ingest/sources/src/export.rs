//! Interface of the export APIs of other tools.

use std::future::Future;
use std::io::Write;
use std::time::Duration;
use tokio::time::timeout;

/// A piece of an export that is fetched separately, in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// File name in the staging folder, with endings for format and compression, as in
    /// `mixpanel-2024-05-01.ndjson.gz`. Names of one export differ; the same settings give the
    /// same names.
    pub name: String,
    /// First unit of the request, in the source's own form.
    pub from: String,
    /// Last unit of the request, in the source's own form.
    pub until: String,
    /// Bytes of the part, if the source lists them.
    pub bytes: Option<u64>,
    /// Version at the source, such as an `ETag`; `None` if parts do not change.
    pub version: Option<String>,
}

/// Client and timeouts of a fetch.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The HTTP client.
    pub http: reqwest::Client,
    /// Most time until a source begins its response.
    pub head_timeout: Duration,
    /// Most time between two pieces of a response.
    pub silence_timeout: Duration,
}

impl Transfer {
    /// Default for `head_timeout`, for sources that sort a day before they respond.
    pub const HEAD_TIMEOUT: Duration = Duration::from_secs(600);
    /// Default for `silence_timeout`, longer than the pauses on a busy network.
    pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(120);

    /// Creates a transfer by a client, with the default timeouts.
    #[must_use]
    pub fn new(http: reqwest::Client) -> Self {
        Self {
            http,
            head_timeout: Self::HEAD_TIMEOUT,
            silence_timeout: Self::SILENCE_TIMEOUT,
        }
    }

    /// Waits for the beginning of a response.
    ///
    /// # Errors
    /// The source does not respond in time.
    pub async fn head<T>(&self, response: impl Future<Output = T>) -> Result<T, FetchError> {
        let response = timeout(self.head_timeout, response).await;
        response.map_err(|_| FetchError::retryable("The service did not answer in time."))
    }

    /// Waits for the next piece of a response.
    ///
    /// # Errors
    /// The source is silent for too long.
    pub async fn piece<T>(&self, piece: impl Future<Output = T>) -> Result<T, FetchError> {
        let came = timeout(self.silence_timeout, piece).await;
        came.map_err(|_| FetchError::retryable("The service fell silent in the middle of a part."))
    }
}

/// Failure to fetch a part.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A retry may help: throttling, a server's failure, a broken transfer. The caller discards
    /// the bytes of a part that cannot be resumed.
    #[error("{message}")]
    Retryable {
        /// Time that the source asks to wait.
        after: Option<Duration>,
        /// Cause of the failure.
        message: String,
    },
    /// A retry does not help: wrong credentials, a range that is not allowed.
    #[error("{message}")]
    Permanent {
        /// Cause of the failure, with advice.
        message: String,
    },
    /// The staging folder cannot be written.
    #[error("cannot write: {0}")]
    Io(#[from] std::io::Error),
}

impl FetchError {
    /// Creates a retryable failure without a time to wait.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self::Retryable {
            after: None,
            message: message.into(),
        }
    }
}

/// A tool's export API.
#[async_trait::async_trait]
pub trait Export: Send + Sync {
    /// Identity of the exported data, without secrets; the same for every range of it. Parts of
    /// another source may have the same names.
    fn source(&self) -> String;

    /// All parts, in the order of time.
    fn parts(&self) -> Vec<Part>;

    /// Most parts that may be fetched at once.
    fn parallel(&self) -> usize;

    /// Names of objects that cannot be fetched, and are not among the parts.
    fn left_out(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns true if an unfinished part can be resumed while its version is the same.
    fn is_resumable(&self) -> bool {
        false
    }

    /// Writes a part as the tool sends it (still compressed if it is), to its end.
    ///
    /// It must notice a transfer that broke off: by the length, the end of the compressed stream,
    /// or the end of the last line. A part without events writes nothing. `begun_bytes` of the
    /// part were fetched before; 0 if parts cannot be resumed.
    ///
    /// # Errors
    /// The part could not be fetched to its end.
    async fn fetch(
        &self,
        transfer: &Transfer,
        part: &Part,
        begun_bytes: u64,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError>;
}
