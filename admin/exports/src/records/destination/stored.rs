//! Destinations as they are stored, before and after a change.

use millrace_catalog::entities::batch_exports::DestinationType;
use serde_json::{Map, Value};

/// Destination as it is stored. Its secrets are sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::records) struct StoredDestination {
    pub(in crate::records) kind: DestinationType,
    pub(in crate::records) config: Map<String, Value>,
    pub(in crate::records) secrets: Map<String, Value>,
}

/// A destination after a change, all fields checked.
#[derive(Debug)]
pub(in crate::records) struct ChangedDestination {
    /// Fields to store, without the new secrets.
    pub(in crate::records) stored: StoredDestination,
    /// Secrets that are to be sealed.
    pub(in crate::records) new_secrets: Vec<(&'static str, String)>,
}
