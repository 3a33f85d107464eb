//! Backlogs: projects with so many updates to apply that others must not wait for them.
//!
//! Such a project gets a position of its own ([`PersonStore::defer`]). From then on the common
//! position passes over its updates, and its own position tells which are left. When the project
//! has caught up with all the others, it joins them again ([`PersonStore::rejoin`]).

use super::PersonStore;
use super::load::SLICE;
use super::progress::{self, PersonProgress, locked_progress};
use super::update::UpdatePosition;
use millrace_catalog::entities::{person_backlogs as backlogs, projects};
use millrace_catalog::{CatalogError, UtcTime};
use millrace_rows::ProjectId;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};
use std::collections::HashMap;
use uuid::Uuid;

impl PersonStore<'_> {
    /// Gives projects a position of their own, equal to the common one. Answers how many got one:
    /// none if updates were applied since `from`, or if there are no such projects any more.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn defer(
        self,
        from: &PersonProgress,
        project_ids: &[ProjectId],
    ) -> Result<usize, CatalogError> {
        let transaction = self.0.begin().await?;
        let deferred = async {
            let progress = locked_progress(&transaction).await?;
            if !progress.is_same_step(from) {
                return Ok(0);
            }
            let owned = organizations_of(&transaction, project_ids).await?;
            let mut existing: Vec<i64> = owned.keys().map(|project| project.0).collect();
            existing.retain(|project| progress.backlog(*project).is_none());
            existing.sort_unstable();
            for slice in existing.chunks(SLICE) {
                let rows = slice.iter().map(|project| {
                    let row = backlogs::Model {
                        team_id: *project,
                        created_at: progress.position.created_at.into(),
                        request_id: progress.position.request_id,
                        position: progress.position.index,
                        version: 0,
                        passed: progress.passed,
                    };
                    row.into_active_model()
                });
                backlogs::Entity::insert_many(rows)
                    .exec_without_returning(&transaction)
                    .await?;
            }
            Ok(existing.len())
        };
        let deferred: Result<usize, DbErr> = deferred.await;
        let count = deferred.map_err(|error| self.0.error(&error))?;
        self.0.commit(transaction).await?;
        Ok(count)
    }

    /// Finds the organizations of projects; those that are gone have none.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn organizations_of(
        self,
        project_ids: &[ProjectId],
    ) -> Result<HashMap<ProjectId, Uuid>, CatalogError> {
        let found = organizations_of(self.0.reader(), project_ids).await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Records that projects with a backlog are applied and in ClickHouse up to this arrival time.
    /// With `rejoin`, as all others are there, too, they lose their own position. Projects that are
    /// further keep theirs. Nothing happens if updates were applied since `from`.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn rejoin(
        self,
        from: &PersonProgress,
        project_ids: &[ProjectId],
        passed: UtcTime,
        rejoin: bool,
    ) -> Result<(), CatalogError> {
        if project_ids.is_empty() {
            return Ok(());
        }
        let transaction = self.0.begin().await?;
        let noted = note_caught_up(&transaction, from, project_ids, passed, rejoin).await;
        noted.map_err(|error| self.0.error(&error))?;
        self.0.commit(transaction).await
    }
}

async fn organizations_of<C: ConnectionTrait>(
    db: &C,
    project_ids: &[ProjectId],
) -> Result<HashMap<ProjectId, Uuid>, DbErr> {
    let mut organizations = HashMap::new();
    for slice in project_ids.chunks(SLICE) {
        let found = projects::Entity::find()
            .select_only()
            .column(projects::Column::Id)
            .column(projects::Column::OrganizationId)
            .filter(projects::Column::Id.is_in(slice.iter().map(|project| project.0)))
            .order_by_asc(projects::Column::Id)
            .into_tuple::<(i64, Uuid)>()
            .all(db)
            .await?;
        let found = found.into_iter();
        organizations.extend(found.map(|(project, owner)| (ProjectId(project), owner)));
    }
    Ok(organizations)
}

async fn note_caught_up(
    within: &DatabaseTransaction,
    from: &PersonProgress,
    project_ids: &[ProjectId],
    passed: UtcTime,
    rejoin: bool,
) -> Result<(), DbErr> {
    let mut progress = locked_progress(within).await?;
    if !progress.is_same_step(from) {
        return Ok(());
    }
    if !rejoin {
        let column = backlogs::Column::Passed;
        let is_later = Condition::any()
            .add(column.is_null())
            .add(column.lt(passed));
        let later = backlogs::Entity::update_many()
            .col_expr(column, Expr::value(passed))
            .filter(backlogs::Column::TeamId.is_in(project_ids.iter().map(|project| project.0)))
            .filter(is_later);
        return later.exec(within).await.map(drop);
    }
    // After a node was deregistered, the common watermark may be earlier than it was: a project
    // that is further would move the common position beyond updates of others.
    let joining = progress.backlogs.iter().filter(|backlog| {
        project_ids.contains(&backlog.project_id) && backlog.passed <= Some(passed)
    });
    let joining: Vec<(i64, UpdatePosition)> = joining
        .map(|backlog| (backlog.project_id.0, backlog.position))
        .collect();
    // The common position is behind theirs now, so that none of their updates is read twice.
    let last = joining.iter().map(|(_, place)| *place).max();
    progress.position = progress.position.max(last.unwrap_or(progress.position));
    progress.backlogs.clear();
    progress::save(within, &progress).await?;
    let joined = joining.into_iter().map(|(project, _)| project);
    let gone = backlogs::Entity::delete_many().filter(backlogs::Column::TeamId.is_in(joined));
    gone.exec(within).await.map(drop)
}
