//! Features of organizations, without the exports that need them.

use crate::Organizations;
use millrace_catalog::{Actor, Catalog, ChangeError, Organization};
use sea_orm::prelude::Uuid;

/// Takes features away from an organization and gives them back, and pauses no exports.
///
/// # Errors
///
/// As [`Organizations::switch_features`].
pub async fn set_features(
    catalog: &Catalog,
    actor: &Actor,
    id: Uuid,
    on: &[String],
    off: &[String],
) -> Result<Organization, ChangeError> {
    let transaction = catalog.begin().await?;
    let switched = Organizations::new(catalog).switch_features(&transaction, actor, id, on, off);
    let switched = switched.await;
    let switched = catalog.finish(transaction, switched).await?;
    Ok(switched.organization)
}
