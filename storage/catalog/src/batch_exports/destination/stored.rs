//! Destinations as they are stored, before and after a change.

use crate::entities::batch_exports::DestinationType;
use serde_json::{Map, Value};

/// Destination as it is stored. Its secrets are sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::batch_exports) struct StoredDestination {
    pub(in crate::batch_exports) kind: DestinationType,
    pub(in crate::batch_exports) config: Map<String, Value>,
    pub(in crate::batch_exports) secrets: Map<String, Value>,
}

/// A destination after a change, all fields checked.
#[derive(Debug)]
pub(in crate::batch_exports) struct ChangedDestination {
    /// Fields to store, without the new secrets.
    pub(in crate::batch_exports) stored: StoredDestination,
    /// Secrets that are to be sealed.
    pub(in crate::batch_exports) new_secrets: Vec<(&'static str, String)>,
}
