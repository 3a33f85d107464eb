//! Stores whose credentials are in one secret.

use super::{Blame, Objects};
use crate::destination::files::FilesConfig;
use crate::error::ExportError;
use object_store::list::PaginatedListStore;
use object_store::{ObjectStore, Result};

/// What the secret is, and what is said without it: others would be looked for then, those of the
/// machine we run on.
pub(super) struct OneSecret {
    /// The field that holds it.
    pub(super) field: &'static str,
    /// What has to be given.
    pub(super) wanted: &'static str,
}

impl OneSecret {
    /// Reads it out of a configuration.
    pub(super) fn read<T>(
        &self,
        config: &FilesConfig<'_>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ExportError> {
        let secret = config.secret(self.field);
        secret.and_then(parse).ok_or_else(|| self.missing())
    }

    /// The store that was built with it, and the template of the prefix in it.
    pub(super) fn opened<S: ObjectStore + PaginatedListStore>(
        &self,
        built: Result<S>,
        blame: Blame,
        prefix: Option<String>,
    ) -> Result<(Objects, String), ExportError> {
        let store = built.map_err(|_| self.missing())?;
        Ok((Objects::new(store, blame), prefix.unwrap_or_default()))
    }

    fn missing(&self) -> ExportError {
        ExportError::hopeless(self.wanted)
    }
}
