//! Properties that a person shows from its devices: ids that an `$identify` gave to it keep
//! properties of their own, which are shown as the person's.
//!
//! A person may have a million of such ids, and be shown again after each event. So the records
//! that are read for one person are bounded, in ids and in bytes: the first ids of an index, and of
//! their records only those that are shown.

use super::load::{SLICE, any_of, properties};
use super::person_state::{PersonKey, Properties};
use super::registers::Stamp;
use millrace_catalog::UtcTime;
use millrace_catalog::entities::{person_distinct_ids as ids, persons};
use millrace_rows::{PERSON_PROPERTIES_BYTES_MAX, ProjectId, person_id};
use sea_orm::sea_query::{Expr, ExprTrait, Func, Order, Query, SelectStatement, UnionType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseConnection, DbErr, EntityTrait, QueryFilter, QuerySelect,
};
use std::collections::HashMap;
use uuid::Uuid;

/// Devices of a person whose properties are shown as the person's: if it has more, those that it
/// identified first.
const DEVICES_MAX: u64 = 100;
/// Bytes of devices' properties, as they are stored, that are read for one person. A device whose
/// properties would exceed this is left out.
const DEVICES_BYTES_MAX: usize = PERSON_PROPERTIES_BYTES_MAX;
/// Persons whose devices one statement asks for.
const PERSONS_SLICE: usize = 50;
/// Bytes of properties that one statement answers, but for a record that is larger by itself.
const READ_BYTES_MAX: usize = 8 << 20;

/// Takes rows of persons, removes their properties, and answers each row with its person's and its
/// devices' properties merged, and the time of the first event among them.
pub(super) async fn with_device_properties(
    db: &DatabaseConnection,
    rows: Vec<persons::Model>,
) -> Result<Vec<(persons::Model, Properties)>, DbErr> {
    let mut shown = Vec::with_capacity(rows.len());
    let mut indexes: HashMap<PersonKey, usize> = HashMap::new();
    for mut row in rows {
        let text = std::mem::take(&mut row.properties);
        let own = if row.is_deleted {
            // The properties are shown with the person that has the device.
            Properties::default()
        } else {
            properties(&text)?
        };
        // Only identified persons have devices.
        if row.is_identified && !row.is_deleted {
            indexes.insert((row.team_id, row.id), shown.len());
        }
        shown.push((row, own));
    }
    let keys: Vec<PersonKey> = indexes.keys().copied().collect();
    let mut wanted = Vec::new();
    for device in devices(db, &keys).await? {
        let index = indexes.get(&device.person).copied();
        let Some((index, (row, _))) = index.and_then(|it| Some((it, shown.get_mut(it)?))) else {
            continue;
        };
        row.created_at = Ord::min(row.created_at, device.created_at);
        wanted.push((index, device));
    }
    for slice in affordable(wanted) {
        let mut texts = texts(db, &slice).await?;
        for (index, device) in slice {
            let text = texts.remove(&device.record);
            if let (Some((_, whole)), Some(text)) = (shown.get_mut(index), text) {
                // Properties that would exceed the limit are left out, as in a merge.
                whole.merge(properties(&text)?).ok();
            }
        }
    }
    Ok(shown)
}

/// Record of a device, before its properties are read.
struct Device {
    /// Person that has the id.
    person: PersonKey,
    record: PersonKey,
    /// Stamp of the `$identify`, which orders the devices of the person.
    first: Option<Stamp>,
    created_at: UtcTime,
    bytes: usize,
}

/// Devices that are shown, those of a person in their order, in slices that are read at once.
fn affordable(wanted: Vec<(usize, Device)>) -> Vec<Vec<(usize, Device)>> {
    let mut taken: HashMap<usize, usize> = HashMap::new();
    let mut slices = Vec::new();
    let (mut slice, mut bytes) = (Vec::new(), 0);
    for (index, device) in wanted {
        let taken = taken.entry(index).or_default();
        if *taken + device.bytes > DEVICES_BYTES_MAX {
            continue;
        }
        *taken += device.bytes;
        if !slice.is_empty() && (bytes + device.bytes > READ_BYTES_MAX || slice.len() >= SLICE) {
            slices.push(std::mem::take(&mut slice));
            bytes = 0;
        }
        bytes += device.bytes;
        slice.push((index, device));
    }
    if !slice.is_empty() {
        slices.push(slice);
    }
    slices
}

/// Reads the first devices of these persons, each person's in their order.
async fn devices(db: &DatabaseConnection, persons: &[PersonKey]) -> Result<Vec<Device>, DbErr> {
    let mut devices = Vec::new();
    for slice in persons.chunks(PERSONS_SLICE) {
        let Some(statement) = first_identified(slice) else {
            continue;
        };
        let mut firsts = HashMap::new();
        for row in db.query_all(&statement).await? {
            let project: i64 = row.try_get("", "team_id")?;
            let distinct_id: String = row.try_get("", "distinct_id")?;
            let person: Uuid = row.try_get("", "person_id")?;
            let at: Option<UtcTime> = row.try_get("", "identified_at")?;
            let by: Option<Uuid> = row.try_get("", "identified_by")?;
            let first = at.zip(by).map(|(at, by)| Stamp { at: at.0, by });
            let record = (project, person_id(ProjectId(project), &distinct_id));
            firsts.insert(record, ((project, person), first));
        }
        let keys: Vec<PersonKey> = firsts.keys().copied().collect();
        for slice in keys.chunks(SLICE) {
            for (record, created_at, bytes) in sizes(db, slice).await? {
                if let Some((person, first)) = firsts.remove(&record) {
                    devices.push(Device {
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
    devices.sort_unstable_by_key(|device| (device.person, device.first, device.record));
    Ok(devices)
}

/// Selects the first ids that an `$identify` gave to each of these persons. One statement for each
/// person, so that the index `person_distinct_ids_identified` answers it from its beginning.
pub(super) fn first_identified(persons: &[PersonKey]) -> Option<SelectStatement> {
    let columns = [
        ids::Column::TeamId,
        ids::Column::DistinctId,
        ids::Column::PersonId,
        ids::Column::IdentifiedAt,
        ids::Column::IdentifiedBy,
    ];
    let of_persons = persons.iter().map(|(project, person)| {
        let mut first = Query::select();
        first
            .columns(columns)
            .from(ids::Entity)
            .and_where(ids::Column::TeamId.eq(*project))
            .and_where(ids::Column::PersonId.eq(*person))
            // `IS NOT NULL` is not a range of an index in both databases.
            .and_where(ids::Column::IdentifiedAt.gte(UtcTime(-i64::MAX)))
            .order_by(ids::Column::IdentifiedAt, Order::Asc)
            .order_by(ids::Column::IdentifiedBy, Order::Asc)
            .limit(DEVICES_MAX);
        let mut all = Query::select();
        all.columns(columns).from_subquery(first, "first");
        all
    });
    of_persons.reduce(|mut all, more| {
        all.union(UnionType::All, more);
        all
    })
}

/// Reads when the first event of each record happened, and the bytes of its properties.
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
    let rows = rows.into_iter().map(|(project, id, created_at, bytes)| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        ((project, id), created_at, bytes)
    });
    Ok(rows.collect())
}

/// Reads properties of records, as they are stored.
async fn texts(
    db: &DatabaseConnection,
    devices: &[(usize, Device)],
) -> Result<HashMap<PersonKey, String>, DbErr> {
    let keys: Vec<PersonKey> = devices.iter().map(|(_, device)| device.record).collect();
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
