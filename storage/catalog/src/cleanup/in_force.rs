//! Condition for keys in force.

use crate::entities::personal_api_keys as keys;
use crate::time::UtcTime;
use sea_orm::{ColumnTrait, Condition};

/// Condition for the keys that are in force at `now`.
#[must_use]
pub fn in_force(now: UtcTime) -> Condition {
    Condition::all().add(keys::Column::RevokedAt.is_null()).add(
        Condition::any()
            .add(keys::Column::ExpiresAt.is_null())
            .add(keys::Column::ExpiresAt.gt(now)),
    )
}
