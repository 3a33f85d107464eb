//! Free-form JSON in a column, read so that no row of an earlier version makes reading fail: see
//! `bounded_json`.

use crate::bounded_json::stored;
use sea_orm::FromJsonQueryResult;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Deref;

/// Any JSON of a row. Names that serde_json treats as markers are not in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
#[serde(transparent)]
pub struct StoredJson(#[serde(deserialize_with = "stored")] pub Value);

impl Deref for StoredJson {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl PartialEq<Value> for StoredJson {
    fn eq(&self, other: &Value) -> bool {
        self.0 == *other
    }
}
