//! Latest changes that were copied to ClickHouse, by which one that lacks copies is recognized.

use super::PersonStore;
use super::changes::deleted;
use millrace_catalog::CatalogError;
use millrace_catalog::entities::{groups, person_distinct_ids as ids, persons};
use sea_orm::{
    ColumnTrait, DatabaseConnection, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};

/// Steps that changed a row of each table last, of those that were copied; `None` without such a
/// row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopiedVersions {
    /// Step of a person.
    pub(crate) persons: Option<i64>,
    /// Step of a distinct id.
    pub(crate) distinct_ids: Option<i64>,
    /// Step of a group.
    pub(crate) groups: Option<i64>,
}

impl PersonStore<'_> {
    /// Finds the last changes of persons, distinct ids and groups up to the step `copied`.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub(crate) async fn copied_versions(self, copied: i64) -> Result<CopiedVersions, CatalogError> {
        let db = self.0.reader();
        let found = async {
            use groups::Column as OfGroup;
            use ids::Column as OfId;
            use persons::Column as OfPerson;
            Ok(CopiedVersions {
                persons: latest::<persons::Entity>(db, OfPerson::Version, OfPerson::TeamId, copied)
                    .await?,
                distinct_ids: latest::<ids::Entity>(db, OfId::Version, OfId::TeamId, copied)
                    .await?,
                groups: latest::<groups::Entity>(db, OfGroup::Version, OfGroup::TeamId, copied)
                    .await?,
            })
        };
        found.await.map_err(|error: DbErr| self.0.error(&error))
    }
}

/// Highest version up to `copied`. Rows of deleted projects may be purged in ClickHouse already.
async fn latest<E: EntityTrait>(
    db: &DatabaseConnection,
    version: E::Column,
    team_id: E::Column,
    copied: i64,
) -> Result<Option<i64>, DbErr> {
    E::find()
        .select_only()
        .column(version)
        .filter(version.lte(copied))
        .filter(team_id.not_in_subquery(deleted()))
        .order_by_desc(version)
        .limit(1)
        .into_tuple::<i64>()
        .one(db)
        .await
}
