//! Handle to idempotency keys.

use millrace_catalog::Catalog;

/// Idempotency keys, and the responses that they keep.
#[derive(Clone, Copy, Debug)]
pub struct IdempotencyKeys<'a>(pub(super) &'a Catalog);

impl<'a> IdempotencyKeys<'a> {
    /// Returns a handle to the idempotency keys in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}
