//! Properties of persons as they are shown: with what the ids have of their own that an `$identify`
//! gave to them.
//!
//! A person may have a million of such ids, and be shown again after each event. So what is read for
//! one is bounded, in ids and in bytes: the first of an index, and of their records only those that
//! are shown.

use super::load::{SLICE, any_of, properties};
use super::registers::Stamp;
use super::world::{PROPERTIES_BYTES_MAX, PersonKey, Properties};
use crate::entities::{person_distinct_ids as ids, persons};
use crate::time::UtcTime;
use millrace_rows::{TeamId, person_id};
use sea_orm::sea_query::{Expr, ExprTrait, Func, Order, Query, SelectStatement, UnionType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseConnection, DbErr, EntityTrait, QueryFilter, QuerySelect,
};
use std::collections::HashMap;
use uuid::Uuid;

/// Ids of a person whose own properties are shown as the person's: of more, those that it
/// identified first.
const PARTS_MAX: u64 = 100;
/// Bytes of their properties, as they are kept, that are read for one person: what would be more is
/// left out, id by id.
const PARTS_BYTES_MAX: usize = PROPERTIES_BYTES_MAX;
/// Persons whose ids one statement asks for.
const PERSONS_SLICE: usize = 50;
/// Bytes of properties that one statement answers, but for a record that is larger by itself.
const READ_BYTES_MAX: usize = 8 << 20;

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
    let mut wanted = Vec::new();
    for part in parts(db, &keys).await? {
        let place = places.get(&part.person).copied();
        let Some((place, (row, _))) = place.and_then(|it| Some((it, shown.get_mut(it)?))) else {
            continue;
        };
        row.created_at = Ord::min(row.created_at, part.created_at);
        wanted.push((place, part));
    }
    for slice in affordable(wanted) {
        let mut texts = texts(db, &slice).await?;
        for (place, part) in slice {
            let text = texts.remove(&part.record);
            if let (Some((_, whole)), Some(text)) = (shown.get_mut(place), text) {
                // What would be too much is left out, as in a merge.
                whole.merge(properties(&text)?);
            }
        }
    }
    Ok(shown)
}

/// What an id has of its own, before its properties are read.
struct Part {
    /// Whoever has the id.
    person: PersonKey,
    record: PersonKey,
    /// Its place among those of the person.
    first: Option<Stamp>,
    created_at: UtcTime,
    bytes: usize,
}

/// Parts that are shown, those of a person in their order, as slices that are read at once.
fn affordable(wanted: Vec<(usize, Part)>) -> Vec<Vec<(usize, Part)>> {
    let mut taken: HashMap<usize, usize> = HashMap::new();
    let mut slices = Vec::new();
    let (mut slice, mut bytes) = (Vec::new(), 0);
    for (place, part) in wanted {
        let taken = taken.entry(place).or_default();
        if *taken + part.bytes > PARTS_BYTES_MAX {
            continue;
        }
        *taken += part.bytes;
        if !slice.is_empty() && (bytes + part.bytes > READ_BYTES_MAX || slice.len() >= SLICE) {
            slices.push(std::mem::take(&mut slice));
            bytes = 0;
        }
        bytes += part.bytes;
        slice.push((place, part));
    }
    if !slice.is_empty() {
        slices.push(slice);
    }
    slices
}

/// The records of the ids that an `$identify` gave to these persons, so many of each, each person's
/// in their order.
async fn parts(db: &DatabaseConnection, persons: &[PersonKey]) -> Result<Vec<Part>, DbErr> {
    let mut parts = Vec::new();
    for slice in persons.chunks(PERSONS_SLICE) {
        let Some(statement) = first_identified(slice) else {
            continue;
        };
        let mut firsts = HashMap::new();
        for row in db.query_all(&statement).await? {
            let team: i64 = row.try_get("", "team_id")?;
            let distinct_id: String = row.try_get("", "distinct_id")?;
            let person: Uuid = row.try_get("", "person_id")?;
            let at: Option<UtcTime> = row.try_get("", "identified_at")?;
            let by: Option<Uuid> = row.try_get("", "identified_by")?;
            let first = at.zip(by).map(|(at, by)| Stamp { at: at.0, by });
            let record = (team, person_id(TeamId(team), &distinct_id));
            firsts.insert(record, ((team, person), first));
        }
        let keys: Vec<PersonKey> = firsts.keys().copied().collect();
        for slice in keys.chunks(SLICE) {
            for (record, created_at, bytes) in sizes(db, slice).await? {
                if let Some((person, first)) = firsts.remove(&record) {
                    parts.push(Part {
                        person,
                        record,
                        first,
                        created_at,
                        bytes,
                    });
                }
            }
        }
    }
    parts.sort_unstable_by_key(|part| (part.person, part.first, part.record));
    Ok(parts)
}

/// The first ids that an `$identify` gave to each of these persons. A statement of its own for each,
/// so that the index `person_distinct_ids_identified` answers it from its beginning.
pub(super) fn first_identified(persons: &[PersonKey]) -> Option<SelectStatement> {
    let columns = [
        ids::Column::TeamId,
        ids::Column::DistinctId,
        ids::Column::PersonId,
        ids::Column::IdentifiedAt,
        ids::Column::IdentifiedBy,
    ];
    let of_persons = persons.iter().map(|(team, person)| {
        let mut first = Query::select();
        first
            .columns(columns)
            .from(ids::Entity)
            .and_where(ids::Column::TeamId.eq(*team))
            .and_where(ids::Column::PersonId.eq(*person))
            // Not `IS NOT NULL`, which is no range of an index everywhere.
            .and_where(ids::Column::IdentifiedAt.gte(UtcTime(-i64::MAX)))
            .order_by(ids::Column::IdentifiedAt, Order::Asc)
            .order_by(ids::Column::IdentifiedBy, Order::Asc)
            .limit(PARTS_MAX);
        let mut all = Query::select();
        all.columns(columns).from_subquery(first, "first");
        all
    });
    of_persons.reduce(|mut all, more| {
        all.union(UnionType::All, more);
        all
    })
}

/// Records that are nobody's but an id's: when their first event happened, and bytes of properties.
async fn sizes(
    db: &DatabaseConnection,
    records: &[PersonKey],
) -> Result<Vec<(PersonKey, UtcTime, usize)>, DbErr> {
    let bytes = Func::cust("OCTET_LENGTH").arg(Expr::col(persons::Column::Properties));
    let rows = persons::Entity::find()
        .select_only()
        .columns([
            persons::Column::TeamId,
            persons::Column::Id,
            persons::Column::CreatedAt,
        ])
        .expr_as(Expr::from(bytes).cast_as("bigint"), "bytes")
        .filter(any_of(
            persons::Column::TeamId,
            persons::Column::Id,
            records,
        ))
        .filter(persons::Column::IsDeleted.eq(true))
        .into_tuple::<(i64, Uuid, UtcTime, i64)>()
        .all(db)
        .await?;
    let rows = rows.into_iter().map(|(team, id, created_at, bytes)| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        ((team, id), created_at, bytes)
    });
    Ok(rows.collect())
}

/// Properties of records, as they are kept.
async fn texts(
    db: &DatabaseConnection,
    parts: &[(usize, Part)],
) -> Result<HashMap<PersonKey, String>, DbErr> {
    let keys: Vec<PersonKey> = parts.iter().map(|(_, part)| part.record).collect();
    let rows = persons::Entity::find()
        .filter(any_of(persons::Column::TeamId, persons::Column::Id, &keys))
        .filter(persons::Column::IsDeleted.eq(true))
        .all(db)
        .await?;
    let texts = rows
        .into_iter()
        .map(|row| ((row.team_id, row.id), row.properties));
    Ok(texts.collect())
}
