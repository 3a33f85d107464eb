//! Configuration that a destination is opened from.

use millrace_catalog::{DestinationType, ExportModel};
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Configuration that a destination is opened from; its fields were checked.
#[derive(Clone, Copy)]
pub struct DestinationConfig<'a> {
    /// Type of the destination.
    pub kind: DestinationType,
    /// Model of the rows: events or persons.
    pub model: ExportModel,
    /// Fields that are shown to customers.
    pub config: &'a Value,
    /// Secret fields.
    pub secrets: &'a BTreeMap<String, String>,
    /// Organization in whose folder of this server files stay; `None`: in the folder of all
    /// exports.
    pub files_of: Option<Uuid>,
}
