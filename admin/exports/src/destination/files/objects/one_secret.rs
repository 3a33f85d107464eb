//! Stores whose credentials are in one secret.

use super::bucket::Objects;
use super::classify::StoreLabels;
use crate::destination::files::config::FilesConfig;
use crate::error::ExportError;
use object_store::list::PaginatedListStore;
use object_store::{ObjectStore, Result};

/// Field of the secret, and the error without it. Otherwise the library would look for the
/// credentials of the machine that this server runs on.
pub(super) struct OneSecret {
    /// Field that has the secret.
    pub(super) field: &'static str,
    /// Error message if the secret is missing.
    pub(super) wanted: &'static str,
}

impl OneSecret {
    /// Reads the secret from a configuration.
    pub(super) fn read<T>(
        &self,
        config: &FilesConfig<'_>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ExportError> {
        let secret = config.secret(self.field);
        secret.and_then(parse).ok_or_else(|| self.missing())
    }

    /// Opens the store that was built with the secret; returns it with the template of the prefix
    /// in it.
    pub(super) fn opened<S: ObjectStore + PaginatedListStore>(
        &self,
        built: Result<S>,
        labels: StoreLabels,
        prefix: Option<String>,
    ) -> Result<(Objects, String), ExportError> {
        let store = built.map_err(|_| self.missing())?;
        Ok((Objects::new(store, labels), prefix.unwrap_or_default()))
    }

    fn missing(&self) -> ExportError {
        ExportError::permanent(self.wanted)
    }
}
