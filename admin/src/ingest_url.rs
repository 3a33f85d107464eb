//! Address that clients send events to, as the console shows it and sends test events to.

use std::sync::{Arc, OnceLock};

/// Address of ingestion without a slash at the end, once it is known: ingestion may start after the
/// API, on a port that the system chooses.
#[derive(Clone, Debug, Default)]
pub struct IngestUrl(Arc<OnceLock<String>>);

impl IngestUrl {
    /// Sets the address; the first one stays.
    pub fn set(&self, url: &str) {
        self.0.get_or_init(|| url.to_owned());
    }

    /// Address, if it is known.
    #[must_use]
    pub fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}
