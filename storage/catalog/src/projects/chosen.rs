//! The project that a new thing of an organization belongs to.

use crate::entities::projects;
use crate::error::ChangeError;
use crate::transaction::{Abort, locked};
use millrace_rows::TeamId;
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder};

/// The project that was wished for, if it is the organization's; without a wish its first one.
/// It stays for as long as the transaction lasts. The organization must be locked already: whoever
/// deletes it has it before its projects.
pub(crate) async fn team_of_organization(
    within: &DatabaseTransaction,
    organization_id: Uuid,
    wished: Option<TeamId>,
) -> Result<TeamId, Abort> {
    let mut query = projects::Entity::find()
        .filter(projects::Column::OrganizationId.eq(organization_id))
        .order_by_asc(projects::Column::Id);
    if let Some(team_id) = wished {
        query = query.filter(projects::Column::Id.eq(team_id.0));
    }
    match (locked(within, query).one(within).await?, wished) {
        (Some(project), _) => Ok(TeamId(project.id)),
        (None, Some(team_id)) => {
            let detail = format!("the organization has no project {team_id}");
            Err(ChangeError::invalid("team_id", "invalid_input", detail).into())
        }
        (None, None) => {
            let detail = "the organization has no project; make one first";
            Err(ChangeError::invalid("team_id", "required", detail).into())
        }
    }
}
