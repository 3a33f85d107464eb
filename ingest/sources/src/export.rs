//! Export APIs of other tools.

use std::future::Future;
use std::io::Write;
use std::time::Duration;
use tokio::time::timeout;

/// A piece of an export that is fetched by itself, in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name in the staging folder, with endings that say format and compression: `mixpanel-2024-05-01.ndjson.gz`.
    /// Of one export, all differ; made again with the same settings, they are the same.
    pub name: String,
    /// What to ask for it; the source's own matter.
    pub from: String,
    /// The end of what to ask for it.
    pub until: String,
    /// Its bytes as the source says them, where it does.
    pub bytes: Option<u64>,
    /// What tells it from what it was when it changes at the source, such as an `ETag`; `None` where parts do not
    /// change.
    pub version: Option<String>,
}

/// How parts are asked for.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The client.
    pub http: reqwest::Client,
    /// How long a source may think before it begins to answer.
    pub head_timeout: Duration,
    /// How long it may be silent in the middle of an answer.
    pub silence_timeout: Duration,
}

impl Transfer {
    /// How long sources think that sort a day before they begin.
    pub const HEAD_TIMEOUT: Duration = Duration::from_secs(600);
    /// Longer than a busy line is silent.
    pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(120);

    /// Transfers by a client, with the timeouts above.
    #[must_use]
    pub fn new(http: reqwest::Client) -> Self {
        Self {
            http,
            head_timeout: Self::HEAD_TIMEOUT,
            silence_timeout: Self::SILENCE_TIMEOUT,
        }
    }

    /// Waits for the beginning of an answer.
    ///
    /// # Errors
    /// When the source thinks for too long.
    pub async fn head<T>(&self, answer: impl Future<Output = T>) -> Result<T, FetchError> {
        let answered = timeout(self.head_timeout, answer).await;
        answered.map_err(|_| FetchError::again("The service did not answer in time."))
    }

    /// Waits for the next piece of an answer.
    ///
    /// # Errors
    /// When the source is silent for too long.
    pub async fn piece<T>(&self, piece: impl Future<Output = T>) -> Result<T, FetchError> {
        let came = timeout(self.silence_timeout, piece).await;
        came.map_err(|_| FetchError::again("The service fell silent in the middle of a part."))
    }
}

/// Why a part was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Trying again may help: throttled, a server's fault, a broken transfer. What was written of a part that cannot be
    /// resumed is thrown away by the caller.
    #[error("{message}")]
    Again {
        /// How long the source asks to wait.
        after: Option<Duration>,
        /// What happened.
        message: String,
    },
    /// Trying again is of no use: wrong credentials, a range that is not allowed.
    #[error("{message}")]
    Final {
        /// What happened and what to do.
        message: String,
    },
    /// The staging folder.
    #[error("cannot write: {0}")]
    Io(#[from] std::io::Error),
}

impl FetchError {
    /// A failure that may pass, of a source that does not say when.
    pub fn again(message: impl Into<String>) -> Self {
        Self::Again {
            after: None,
            message: message.into(),
        }
    }
}

/// A tool's export API.
#[async_trait::async_trait]
pub trait Export: Send + Sync {
    /// What it is an export of, without secrets; the same for every range of it. Parts of another source may have the
    /// same names.
    fn source(&self) -> String;

    /// All parts, in the order of time.
    fn parts(&self) -> Vec<Part>;

    /// How many parts may be asked for at once.
    fn parallel(&self) -> usize;

    /// Names of what cannot be fetched, and is no part therefore.
    fn left_out(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether a part that was begun can be gone on with, as long as its version is the same.
    fn is_resumable(&self) -> bool {
        false
    }

    /// Writes a part as the tool sends it (still compressed if it is), to its end. It must notice a transfer that
    /// broke off: by the length, the end of the compressed stream, the last line's end. A part without events
    /// writes nothing. So many bytes of it are there already; 0 where parts cannot be resumed.
    ///
    /// # Errors
    /// When it could not be fetched whole.
    async fn fetch(
        &self,
        transfer: &Transfer,
        part: &Part,
        begun_bytes: u64,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError>;
}
