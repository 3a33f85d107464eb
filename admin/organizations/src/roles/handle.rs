//! Handle to roles.

use millrace_catalog::Catalog;

/// Roles of organizations, and the members who have them.
#[derive(Clone, Copy, Debug)]
pub struct Roles<'a>(pub(super) &'a Catalog);

impl<'a> Roles<'a> {
    /// Returns a handle to the roles in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}
