//! Errors of a copy.

use crate::error::CatalogError;

/// Reason why a catalog was not copied. The other database has nothing of it then.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CopyError {
    /// One of the databases failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The other database has rows.
    #[error("{location} has rows in {table}; a catalog is copied to an empty database only")]
    NotEmpty {
        /// Path of the file, or server and database.
        location: String,
        /// Table with rows.
        table: &'static str,
    },
    /// A process works with the catalog.
    #[error(
        "a server has the lease of {lease} in the catalog {location}; stop all servers, and try again in a few seconds"
    )]
    InUse {
        /// Path of the file, or server and database.
        location: String,
        /// Name of the lease.
        lease: String,
    },
    /// The copy is whole, but the former catalog still has its id.
    #[error(
        "all is copied, but the former catalog {location} still has the id of the copy: {reason}; let no server use it \
         any more"
    )]
    IdKept {
        /// Path of the file, or server and database.
        location: String,
        /// Error of the database.
        reason: CatalogError,
    },
}
