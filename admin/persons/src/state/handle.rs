//! Handle to persons.

use millrace_catalog::Catalog;

/// Persons and groups, and how far events have changed them.
#[derive(Clone, Copy, Debug)]
pub struct PersonStore<'a>(pub(super) &'a Catalog);

impl<'a> PersonStore<'a> {
    /// Returns a handle to the persons in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}
