//! Export APIs of other tools.

use std::io::Write;
use std::time::Duration;

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
}

/// Why a part was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Trying again may help: throttled, a server's fault, a broken transfer. What was written of the part is
    /// thrown away by the caller.
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

/// A tool's export API.
#[async_trait::async_trait]
pub trait Export: Send + Sync {
    /// All parts, in the order of time.
    fn parts(&self) -> Vec<Part>;

    /// How many parts may be asked for at once.
    fn parallel(&self) -> usize;

    /// Writes a part as the tool sends it (still compressed if it is), to its end. It must notice a transfer that
    /// broke off: by the length, the end of the compressed stream, the last line's end. A part without events
    /// writes nothing.
    ///
    /// # Errors
    /// When it could not be fetched whole.
    async fn fetch(
        &self,
        http: &reqwest::Client,
        part: &Part,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError>;
}
