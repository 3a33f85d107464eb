//! Properties of persons as they are shown: with what the ids have of their own that an `$identify`
//! gave to them.

use super::load::{SLICE, any_of, properties};
use super::world::{PersonKey, Properties};
use crate::entities::{person_distinct_ids as ids, persons};
use millrace_rows::{TeamId, person_id};
use sea_orm::sea_query::{
    Expr, ExprTrait, Func, Order, OverStatement, Query, SelectStatement, WindowStatement,
};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseConnection, DbErr, EntityTrait, QueryFilter};
use std::collections::HashMap;
use uuid::Uuid;

/// Ids of a person whose own properties are shown as the person's: of more, those that it
/// identified first.
const PARTS_MAX: i64 = 100;

/// Rows of persons with their properties, taken out of them, and with what their parts have: properties,
/// and when the first event happened.
pub(super) async fn with_parts(
    db: &DatabaseConnection,
    rows: Vec<persons::Model>,
) -> Result<Vec<(persons::Model, Properties)>, DbErr> {
    let mut shown = Vec::with_capacity(rows.len());
    let mut places: HashMap<PersonKey, usize> = HashMap::new();
    for mut row in rows {
        let text = std::mem::take(&mut row.properties);
        let own = if row.is_deleted {
            // Shown as whose part it is.
            Properties::default()
        } else {
            properties(&text)?
        };
        // Nobody else has parts.
        if row.is_identified && !row.is_deleted {
            places.insert((row.team_id, row.id), shown.len());
        }
        shown.push((row, own));
    }
    let keys: Vec<PersonKey> = places.keys().copied().collect();
    for slice in keys.chunks(SLICE) {
        let parts = parts(db, slice).await?;
        for slice in parts.chunks(SLICE) {
            let mut records = records(db, slice).await?;
            for part in slice {
                let place = places.get(&(part.team, part.person));
                let whole = place.and_then(|place| shown.get_mut(*place));
                let record = records.remove(&(part.team, part.record));
                let (Some((row, whole)), Some(record)) = (whole, record) else {
                    continue;
                };
                row.created_at = Ord::min(row.created_at, record.created_at);
                // What would be too much is left out, as in a merge.
                whole.merge(properties(&record.properties)?);
            }
        }
    }
    Ok(shown)
}

/// Who has an id, and where that is what the id has of its own.
struct Part {
    team: i64,
    person: Uuid,
    record: Uuid,
}

async fn parts(db: &DatabaseConnection, persons: &[PersonKey]) -> Result<Vec<Part>, DbErr> {
    let found = db.query_all(&first_identified(persons)).await?;
    let parts = found.into_iter().map(|row| {
        let team = row.try_get("", "team_id")?;
        let distinct_id: String = row.try_get("", "distinct_id")?;
        Ok(Part {
            team,
            person: row.try_get("", "person_id")?,
            record: person_id(TeamId(team), &distinct_id),
        })
    });
    parts.collect()
}

/// The ids that an `$identify` gave to these persons, so many of each, the earliest first.
fn first_identified(persons: &[PersonKey]) -> SelectStatement {
    let mut of_person = WindowStatement::new();
    of_person
        .partition_by_columns([ids::Column::TeamId, ids::Column::PersonId])
        .order_by(ids::Column::IdentifiedAt, Order::Asc)
        .order_by(ids::Column::IdentifiedBy, Order::Asc);
    let mut numbered = Query::select();
    numbered
        .columns([
            ids::Column::TeamId,
            ids::Column::DistinctId,
            ids::Column::PersonId,
        ])
        .expr_window_as(Func::cust("ROW_NUMBER"), of_person, "place")
        .from(ids::Entity)
        .cond_where(any_of(ids::Column::TeamId, ids::Column::PersonId, persons))
        .and_where(ids::Column::IdentifiedAt.is_not_null());
    let mut first = Query::select();
    first
        .columns(["team_id", "distinct_id", "person_id"])
        .from_subquery(numbered, "numbered")
        .and_where(Expr::col("place").lte(PARTS_MAX))
        .order_by("place", Order::Asc);
    first
}

async fn records(
    db: &DatabaseConnection,
    parts: &[Part],
) -> Result<HashMap<PersonKey, persons::Model>, DbErr> {
    let keys: Vec<PersonKey> = parts.iter().map(|part| (part.team, part.record)).collect();
    let found = persons::Entity::find()
        .filter(any_of(persons::Column::TeamId, persons::Column::Id, &keys))
        .filter(persons::Column::IsDeleted.eq(true))
        .all(db)
        .await?;
    let found = found.into_iter().map(|row| ((row.team_id, row.id), row));
    Ok(found.collect())
}
