//! Import quotas in the catalog: rows of projects, which nodes lease.
//!
//! | Module | Holds |
//! |---|---|
//! | `project_quota` | quota of one project and its leases: decided, without a database |
//! | `bucket` | token bucket of a project's import rate; no I/O |
//! | `rows` | its rows: read and locked, written |
//! | `renew` | nodes' reports of what they imported, and their leases |

mod bucket;
mod project_quota;
mod renew;
mod rows;

#[cfg(test)]
mod tests;

pub use project_quota::{LeaseDecision, LeaseReport};

use millrace_catalog::Catalog;

/// Import quota of projects, which nodes lease.
#[derive(Clone, Copy, Debug)]
pub struct ImportQuotas<'a>(&'a Catalog);

impl<'a> ImportQuotas<'a> {
    /// Returns a handle to the import quotas in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}
