//! Handle to personal keys.

use millrace_catalog::Catalog;

/// Personal keys of users.
#[derive(Clone, Copy, Debug)]
pub struct PersonalKeys<'a>(pub(super) &'a Catalog);

impl<'a> PersonalKeys<'a> {
    /// Returns a handle to the personal keys in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}
