//! Handles to projects and their keys.

use millrace_catalog::Catalog;

/// Projects of organizations.
#[derive(Clone, Copy, Debug)]
pub struct Projects<'a>(pub(super) &'a Catalog);

impl<'a> Projects<'a> {
    /// Returns a handle to the projects in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

/// Changes of project keys.
#[derive(Clone, Copy, Debug)]
pub struct ProjectKeyChanges<'a>(pub(super) &'a Catalog);

impl<'a> ProjectKeyChanges<'a> {
    /// Returns a handle to change project keys in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}
