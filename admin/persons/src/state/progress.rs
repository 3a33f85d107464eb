//! Progress of applying updates: one position for all projects, but for those with a backlog.
//!
//! `backlogs` gives projects a position of their own, and takes it back.

use super::PersonStore;
use super::update::{PersonUpdate, UpdatePosition};
use millrace_catalog::entities::{person_backlogs as backlogs, person_progress};
use millrace_catalog::transaction::locked;
use millrace_catalog::{CatalogError, UtcTime};
use millrace_rows::{Micros, ProjectId};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter, QueryOrder,
};
use std::collections::HashSet;

/// Progress of applying updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonProgress {
    /// Position of the last update that was applied, of projects without a backlog.
    pub position: UpdatePosition,
    /// Number of the last step: rows that a transaction changes have its number.
    pub version: i64,
    /// Last step whose changes are all in ClickHouse.
    pub copied: i64,
    /// Arrival time before which every update is applied, with its changes in ClickHouse, but for
    /// projects with a backlog. No later step gets a lower number than this.
    pub passed: Option<UtcTime>,
    /// Projects with a position of their own, by project.
    pub backlogs: Vec<PersonBacklog>,
}

/// Progress of one project with a backlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonBacklog {
    /// The project.
    pub project_id: ProjectId,
    /// Position of the last update that was applied.
    pub position: UpdatePosition,
    /// Step that applied it; 0 before the first.
    pub version: i64,
    /// Arrival time before which every update of the project is applied, with its changes in
    /// ClickHouse.
    pub passed: Option<UtcTime>,
}

impl PersonStore<'_> {
    /// Reads the progress of applying updates.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn progress(self) -> Result<PersonProgress, CatalogError> {
        let found = read(self.0.writer()).await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Arrival time before which all updates of persons and groups, of all projects, are applied
    /// and in ClickHouse; `None` until that is known.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn watermark(self) -> Result<Option<UtcTime>, CatalogError> {
        Ok(self.progress().await?.watermark())
    }

    /// Records that everything up to a step is in ClickHouse.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn note_copied(self, version: i64) -> Result<(), CatalogError> {
        let transaction = self.0.begin().await?;
        let noted = async {
            use backlogs::Column::{CreatedAt, Passed, Version};
            let column = person_progress::Column::Copied;
            person_progress::Entity::update_many()
                .col_expr(column, Expr::value(version))
                .filter(column.lt(version))
                .exec(&transaction)
                .await?;
            let is_later = Condition::any()
                .add(Passed.is_null())
                .add(Expr::col(Passed).lt(Expr::col(CreatedAt)));
            backlogs::Entity::update_many()
                .col_expr(Passed, Expr::col(CreatedAt))
                .filter(Version.gt(0_i64).and(Version.lte(version)))
                .filter(is_later)
                .exec(&transaction)
                .await
        };
        noted.await.map_err(|error| self.0.error(&error))?;
        self.0.commit(transaction).await
    }

    /// Records the arrival time before which everything is applied and in ClickHouse, but for
    /// projects with a backlog. Nothing happens if updates were applied since `from`, as the time
    /// may not hold for those.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn note_passed(
        self,
        from: &PersonProgress,
        passed: UtcTime,
    ) -> Result<(), CatalogError> {
        let transaction = self.0.begin().await?;
        let noted = async {
            if !locked_progress(&transaction).await?.is_same_step(from) {
                return Ok(());
            }
            let column = person_progress::Column::Passed;
            let is_later = Condition::any()
                .add(column.is_null())
                .add(column.lt(passed));
            person_progress::Entity::update_many()
                .col_expr(column, Expr::value(passed))
                .filter(is_later)
                .exec(&transaction)
                .await
                .map(drop)
        };
        let noted: Result<(), DbErr> = noted.await;
        noted.map_err(|error| self.0.error(&error))?;
        self.0.commit(transaction).await
    }

    /// Has all persons and groups copied to ClickHouse again, as ClickHouse is from another time
    /// than this catalog: changes between the two would never be copied.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn copy_again(self) -> Result<(), CatalogError> {
        let again = person_progress::Entity::update_many()
            .col_expr(person_progress::Column::Copied, Expr::value(0_i64))
            .exec(self.0.writer());
        again.await.map(drop).map_err(|error| self.0.error(&error))
    }
}

/// Reads the progress and locks it until the transaction ends.
pub(super) async fn locked_progress(within: &DatabaseTransaction) -> Result<PersonProgress, DbErr> {
    let row = locked(
        within,
        person_progress::Entity::find_by_id(person_progress::ROW),
    );
    row.one(within).await?;
    read(within).await
}

async fn read<C: ConnectionTrait>(db: &C) -> Result<PersonProgress, DbErr> {
    let row = person_progress::Entity::find_by_id(person_progress::ROW)
        .one(db)
        .await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the progress of persons".to_owned()))?;
    let own = backlogs::Entity::find()
        .order_by_asc(backlogs::Column::TeamId)
        .all(db)
        .await?;
    let own = own.into_iter().map(|row| PersonBacklog {
        project_id: ProjectId(row.team_id),
        position: UpdatePosition {
            created_at: Micros(row.created_at.0),
            request_id: row.request_id,
            index: row.position,
        },
        version: row.version,
        passed: row.passed,
    });
    Ok(PersonProgress {
        position: UpdatePosition {
            created_at: Micros(row.created_at.0),
            request_id: row.request_id,
            index: row.position,
        },
        version: row.version,
        copied: row.copied,
        passed: row.passed,
        backlogs: own.collect(),
    })
}

/// Writes the positions that the last step has changed.
pub(super) async fn save(
    within: &DatabaseTransaction,
    progress: &PersonProgress,
) -> Result<(), DbErr> {
    let row = person_progress::ActiveModel {
        id: ActiveValue::Unchanged(person_progress::ROW),
        created_at: ActiveValue::Set(progress.position.created_at.into()),
        request_id: ActiveValue::Set(progress.position.request_id),
        position: ActiveValue::Set(progress.position.index),
        version: ActiveValue::Set(progress.version),
        ..Default::default()
    };
    person_progress::Entity::update(row).exec(within).await?;
    let own = progress.backlogs.iter();
    for backlog in own.filter(|backlog| backlog.version == progress.version) {
        let row = backlogs::ActiveModel {
            team_id: ActiveValue::Unchanged(backlog.project_id.0),
            created_at: ActiveValue::Set(backlog.position.created_at.into()),
            request_id: ActiveValue::Set(backlog.position.request_id),
            position: ActiveValue::Set(backlog.position.index),
            version: ActiveValue::Set(backlog.version),
            ..Default::default()
        };
        backlogs::Entity::update(row).exec(within).await?;
    }
    Ok(())
}

impl PersonProgress {
    /// Arrival time before which everything of all projects is applied and in ClickHouse.
    #[must_use]
    pub fn watermark(&self) -> Option<UtcTime> {
        let own = self.backlogs.iter().map(|backlog| backlog.passed);
        own.fold(self.passed, Ord::min)
    }

    /// Returns true if both are the same step, with the same positions.
    pub(super) fn is_same_step(&self, other: &Self) -> bool {
        let own = self.backlogs.iter().map(PersonBacklog::at);
        let others = other.backlogs.iter().map(PersonBacklog::at);
        (self.position, self.version) == (other.position, other.version) && own.eq(others)
    }

    pub(super) fn backlog(&self, project: i64) -> Option<&PersonBacklog> {
        self.backlogs
            .iter()
            .find(|backlog| backlog.project_id.0 == project)
    }

    /// Moves to the next step, which applied these updates; all of them arrived before this time.
    pub(super) fn advance(&mut self, updates: &[PersonUpdate], before: Option<UtcTime>) {
        let mut touched = HashSet::new();
        let mut version = self.version + 1;
        for update in updates {
            version = Ord::max(version, update.position.created_at.0);
            // They are in the order of projects.
            let backlogs = &mut self.backlogs;
            let found = backlogs.binary_search_by_key(&update.project_id, |it| it.project_id);
            match found.ok().and_then(|index| backlogs.get_mut(index)) {
                Some(backlog) => {
                    backlog.position = update.position;
                    touched.insert(backlog.project_id);
                }
                None => self.position = update.position,
            }
        }
        if let Some(before) = before.filter(|_| !touched.is_empty()) {
            version = Ord::max(version, before.0);
        }
        self.version = version;
        let own = self.backlogs.iter_mut();
        for backlog in own.filter(|backlog| touched.contains(&backlog.project_id)) {
            backlog.version = version;
        }
    }
}

impl PersonBacklog {
    const fn at(&self) -> (ProjectId, UpdatePosition, i64) {
        (self.project_id, self.position, self.version)
    }
}
