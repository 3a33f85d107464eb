//! Features of organizations, with the exports that need one.

use super::BatchExports;
use millrace_catalog::{Actor, Catalog, ChangeError, Organization};
use millrace_organizations::Organizations;
use sea_orm::prelude::Uuid;

/// Takes features away from an organization and gives them back; for the operator. Exports of an
/// organization that loses theirs are paused, and their backfills cancelled, in the same
/// transaction.
///
/// # Errors
///
/// No such organization, or no such feature.
pub async fn set_features(
    catalog: &Catalog,
    actor: &Actor,
    id: Uuid,
    on: &[String],
    off: &[String],
) -> Result<Organization, ChangeError> {
    let transaction = catalog.begin().await?;
    let switched = async {
        let switched = Organizations::new(catalog)
            .switch_features(&transaction, actor, id, on, off)
            .await?;
        if switched.loses_exports {
            BatchExports::new(catalog)
                .pause_all_of(&transaction, actor, id)
                .await?;
        }
        Ok(switched.organization)
    };
    let switched = switched.await;
    catalog.finish(transaction, switched).await
}
