//! How far updates have been applied: one place for all projects, but for those with a backlog.
//!
//! How projects get a place of their own, and lose it, is in `backlogs`.

use super::update::{PersonUpdate, UpdatePlace};
use crate::catalog::Catalog;
use crate::entities::{person_backlogs as backlogs, person_progress};
use crate::error::CatalogError;
use crate::time::UtcTime;
use crate::transaction::locked;
use millrace_rows::{Micros, TeamId};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter, QueryOrder,
};
use std::collections::HashSet;

/// The one row of progress.
const ROW: i32 = 1;

/// How far updates have been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonProgress {
    /// The last one that was applied, of projects without a backlog.
    pub place: UpdatePlace,
    /// The last step: what a transaction changes has its number.
    pub version: i64,
    /// The last step of which everything is in ClickHouse.
    pub copied: i64,
    /// Every update that arrived before is applied, and what it changed is in ClickHouse, but for
    /// projects with a backlog. No later step gets a lower number than this.
    pub passed: Option<UtcTime>,
    /// Projects with a place of their own, by their numbers.
    pub backlogs: Vec<PersonBacklog>,
}

/// How far the updates of one project have been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonBacklog {
    /// The project.
    pub team_id: TeamId,
    /// The last one that was applied.
    pub place: UpdatePlace,
    /// The step that did it; 0 before the first.
    pub version: i64,
    /// Every update of the project that arrived before is applied, and what it changed is in ClickHouse.
    pub passed: Option<UtcTime>,
}

impl Catalog {
    /// How far updates have been applied.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn person_progress(&self) -> Result<PersonProgress, CatalogError> {
        let found = read(&self.writer).await;
        found.map_err(|error| self.error(&error))
    }

    /// The arrival time before which everything that events of all projects say of persons and groups
    /// is applied and in ClickHouse; `None` until that is known.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn persons_watermark(&self) -> Result<Option<UtcTime>, CatalogError> {
        Ok(self.person_progress().await?.watermark())
    }

    /// Likewise of one project, which others hold up for some rounds at the most.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn persons_watermark_of(
        &self,
        team_id: TeamId,
    ) -> Result<Option<UtcTime>, CatalogError> {
        // The common one is read first: a project that gets a backlog after that has passed it.
        let progress = self.person_progress().await?;
        let mut backlogs = progress.backlogs.iter();
        let own = backlogs.find(|backlog| backlog.team_id == team_id);
        Ok(own.map_or(progress.passed, |backlog| backlog.passed))
    }

    /// Notes that everything up to a step is in ClickHouse.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn note_persons_copied(&self, version: i64) -> Result<(), CatalogError> {
        let transaction = self.begin().await?;
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
        noted.await.map_err(|error| self.error(&error))?;
        self.commit(transaction).await
    }

    /// Notes the arrival time before which everything is applied and in ClickHouse, but for projects
    /// with a backlog. Nothing happens if updates were applied since `from`: it may be of others by now.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn note_persons_passed(
        &self,
        from: &PersonProgress,
        passed: UtcTime,
    ) -> Result<(), CatalogError> {
        let transaction = self.begin().await?;
        let noted = async {
            if !locked_progress(&transaction).await?.is_where(from) {
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
        noted.map_err(|error| self.error(&error))?;
        self.commit(transaction).await
    }

    /// Has persons and groups copied to ClickHouse as a whole, as that is of another time than this
    /// catalog: what was copied between the two would never come.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn copy_persons_again(&self) -> Result<(), CatalogError> {
        let again = person_progress::Entity::update_many()
            .col_expr(person_progress::Column::Copied, Expr::value(0_i64))
            .exec(&self.writer);
        again.await.map(drop).map_err(|error| self.error(&error))
    }
}

/// How far updates have been applied, which stays so until the transaction ends.
pub(super) async fn locked_progress(within: &DatabaseTransaction) -> Result<PersonProgress, DbErr> {
    let row = locked(within, person_progress::Entity::find_by_id(ROW));
    row.one(within).await?;
    read(within).await
}

async fn read<C: ConnectionTrait>(db: &C) -> Result<PersonProgress, DbErr> {
    let row = person_progress::Entity::find_by_id(ROW).one(db).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the progress of persons".to_owned()))?;
    let own = backlogs::Entity::find()
        .order_by_asc(backlogs::Column::TeamId)
        .all(db)
        .await?;
    let own = own.into_iter().map(|row| PersonBacklog {
        team_id: TeamId(row.team_id),
        place: UpdatePlace {
            created_at: Micros(row.created_at.0),
            request_id: row.request_id,
            index: row.position,
        },
        version: row.version,
        passed: row.passed,
    });
    Ok(PersonProgress {
        place: UpdatePlace {
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

/// Writes the places that the last step has changed.
pub(super) async fn save(
    within: &DatabaseTransaction,
    progress: &PersonProgress,
) -> Result<(), DbErr> {
    let row = person_progress::ActiveModel {
        id: ActiveValue::Unchanged(ROW),
        created_at: ActiveValue::Set(progress.place.created_at.into()),
        request_id: ActiveValue::Set(progress.place.request_id),
        position: ActiveValue::Set(progress.place.index),
        version: ActiveValue::Set(progress.version),
        ..Default::default()
    };
    person_progress::Entity::update(row).exec(within).await?;
    let own = progress.backlogs.iter();
    for backlog in own.filter(|backlog| backlog.version == progress.version) {
        let row = backlogs::ActiveModel {
            team_id: ActiveValue::Unchanged(backlog.team_id.0),
            created_at: ActiveValue::Set(backlog.place.created_at.into()),
            request_id: ActiveValue::Set(backlog.place.request_id),
            position: ActiveValue::Set(backlog.place.index),
            version: ActiveValue::Set(backlog.version),
            ..Default::default()
        };
        backlogs::Entity::update(row).exec(within).await?;
    }
    Ok(())
}

impl PersonProgress {
    /// The arrival time before which everything of all projects is applied and in ClickHouse.
    #[must_use]
    pub fn watermark(&self) -> Option<UtcTime> {
        let own = self.backlogs.iter().map(|backlog| backlog.passed);
        own.fold(self.passed, Ord::min)
    }

    /// Whether both are the same step, with the same places.
    pub(super) fn is_where(&self, other: &Self) -> bool {
        let own = self.backlogs.iter().map(PersonBacklog::at);
        let others = other.backlogs.iter().map(PersonBacklog::at);
        (self.place, self.version) == (other.place, other.version) && own.eq(others)
    }

    pub(super) fn backlog(&self, team: i64) -> Option<&PersonBacklog> {
        self.backlogs
            .iter()
            .find(|backlog| backlog.team_id.0 == team)
    }

    /// Moves to the next step, which applied these updates; all of them arrived before this time.
    pub(super) fn advance(&mut self, updates: &[PersonUpdate], before: Option<UtcTime>) {
        let mut touched = HashSet::new();
        let mut version = self.version + 1;
        for update in updates {
            version = Ord::max(version, update.place.created_at.0);
            let mut own = self.backlogs.iter_mut();
            match own.find(|backlog| backlog.team_id == update.team_id) {
                Some(backlog) => {
                    backlog.place = update.place;
                    touched.insert(backlog.team_id);
                }
                None => self.place = update.place,
            }
        }
        if let Some(before) = before.filter(|_| !touched.is_empty()) {
            version = Ord::max(version, before.0);
        }
        self.version = version;
        let own = self.backlogs.iter_mut();
        for backlog in own.filter(|backlog| touched.contains(&backlog.team_id)) {
            backlog.version = version;
        }
    }
}

impl PersonBacklog {
    const fn at(&self) -> (TeamId, UpdatePlace, i64) {
        (self.team_id, self.place, self.version)
    }
}
