//! Owner of the rows in ClickHouse, which is known once the catalog was opened.

use millrace_clickhouse::RowOwner;
use std::sync::{Arc, OnceLock};

/// Catalog whose projects own the rows in ClickHouse, for all copies of the configuration.
#[derive(Clone, Debug, Default)]
pub struct KnownOwner(Arc<OnceLock<RowOwner>>);

impl KnownOwner {
    /// Sets the owner, for good.
    pub fn set(&self, owner: RowOwner) {
        let _ = self.0.set(owner);
    }

    /// Owner of the rows; `None` until the catalog was opened.
    #[must_use]
    pub fn get(&self) -> Option<RowOwner> {
        self.0.get().copied()
    }
}
