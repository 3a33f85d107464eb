//! Loads the rows that updates need.

use super::identities::KnownId;
use super::person_state::{Group, Person, PersonState, Properties};
use super::registers::Registers;
use super::update::PersonUpdate;
use millrace_catalog::entities::{group_types, groups, person_distinct_ids as ids, persons};
use millrace_rows::UpdateKind;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, Value,
};
use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use uuid::Uuid;

/// Rows that are asked for, or written, in one statement.
pub(super) const SLICE: usize = 500;

/// Loads the rows that are not loaded yet; answers the bytes of properties.
pub(super) async fn load(
    within: &DatabaseTransaction,
    state: &mut PersonState,
    updates: &[&PersonUpdate],
) -> Result<usize, DbErr> {
    state.new_ids.load(within, updates).await?;
    load_ids(within, state, updates).await?;
    let bytes = load_persons(within, state, updates).await?;
    load_types(within, state, updates).await?;
    Ok(bytes + load_groups(within, state, updates).await?)
}

/// Keys of the ids that an update names.
pub(super) fn ids_of(update: &PersonUpdate) -> impl Iterator<Item = (i64, String)> {
    let own = Some(&update.distinct_id).filter(|id| !id.is_empty());
    let merges = update.kind != UpdateKind::Properties && own.is_some() && update.has_other_id();
    let other = merges.then_some(&update.other_id);
    let both = own.into_iter().chain(other);
    both.map(|id| (update.project_id.0, id.clone()))
}

async fn load_ids(
    within: &DatabaseTransaction,
    state: &mut PersonState,
    updates: &[&PersonUpdate],
) -> Result<(), DbErr> {
    let named = updates.iter().flat_map(|update| ids_of(update));
    let wanted = distinct(named.filter(|key| !state.ids.contains_key(key)));
    for slice in wanted.chunks(SLICE) {
        let condition = any_of(ids::Column::TeamId, ids::Column::DistinctId, slice);
        let found = ids::Entity::find().filter(condition).all(within).await?;
        for key in slice {
            state.ids.insert(key.clone(), None);
        }
        for row in found {
            let known = KnownId::from(&row);
            let key = (row.team_id, row.distinct_id);
            state.ids.insert(key, Some(known));
        }
    }
    Ok(())
}

async fn load_persons(
    within: &DatabaseTransaction,
    state: &mut PersonState,
    updates: &[&PersonUpdate],
) -> Result<usize, DbErr> {
    let named = updates.iter().flat_map(|update| ids_of(update));
    // Also the own records of identified ids.
    let named = named.flat_map(|(project, id)| {
        let both = [state.person_of(project, &id), state.record_of(project, &id)];
        both.into_iter().flatten().map(move |id| (project, id))
    });
    let wanted = distinct(named.filter(|key| !state.persons.contains_key(key)));
    let mut bytes = 0;
    for slice in wanted.chunks(SLICE) {
        let condition = any_of(persons::Column::TeamId, persons::Column::Id, slice);
        for row in persons::Entity::find()
            .filter(condition)
            .all(within)
            .await?
        {
            bytes += row.properties.len();
            let person = Person {
                created_at: row.created_at.0,
                is_identified: row.is_identified,
                is_deleted: row.is_deleted,
                properties: properties(&row.properties)?,
            };
            state.persons.insert((row.team_id, row.id), person);
        }
    }
    Ok(bytes)
}

async fn load_types(
    within: &DatabaseTransaction,
    state: &mut PersonState,
    updates: &[&PersonUpdate],
) -> Result<(), DbErr> {
    let with_groups = updates.iter().filter(|it| !it.group_type.is_empty());
    let project_ids = with_groups.map(|update| update.project_id.0);
    let wanted = distinct(project_ids.filter(|project| !state.group_types.contains_key(project)));
    for slice in wanted.chunks(SLICE) {
        let found = group_types::Entity::find()
            .filter(group_types::Column::TeamId.is_in(slice.iter().copied()))
            .order_by_asc(group_types::Column::Position)
            .all(within)
            .await?;
        for row in found {
            let types = state.group_types.entry(row.team_id).or_default();
            types.push(row.name);
        }
    }
    Ok(())
}

async fn load_groups(
    within: &DatabaseTransaction,
    state: &mut PersonState,
    updates: &[&PersonUpdate],
) -> Result<usize, DbErr> {
    let with_groups = updates.iter().filter(|it| !it.group_type.is_empty());
    let named = with_groups.map(|update| {
        let (project, kind) = (update.project_id.0, update.group_type.clone());
        (project, kind, update.group_key.clone())
    });
    let wanted = distinct(named.filter(|key| !state.groups.contains_key(key)));
    let mut bytes = 0;
    for slice in wanted.chunks(SLICE) {
        let mut of_type: BTreeMap<(i64, &str), Vec<&str>> = BTreeMap::new();
        for (project, kind, key) in slice {
            of_type.entry((*project, kind)).or_default().push(key);
        }
        let mut condition = Condition::any();
        for ((project, kind), keys) in of_type {
            condition = condition.add(
                Condition::all()
                    .add(groups::Column::TeamId.eq(project))
                    .add(groups::Column::GroupType.eq(kind))
                    .add(groups::Column::GroupKey.is_in(keys)),
            );
        }
        for key in slice {
            state.groups.insert(key.clone(), None);
        }
        for row in groups::Entity::find().filter(condition).all(within).await? {
            bytes += row.properties.len();
            let group = Group {
                created_at: row.created_at.0,
                properties: properties(&row.properties)?,
            };
            let key = (row.team_id, row.group_type, row.group_key);
            state.groups.insert(key, Some(group));
        }
    }
    Ok(bytes)
}

/// Parses stored properties.
pub(super) fn properties(text: &str) -> Result<Properties, DbErr> {
    let registers = Registers::parse(text);
    let registers = registers.map_err(|error| DbErr::Type(error.to_string()))?;
    Ok(Properties::new(registers))
}

/// Condition of rows with these keys: one project's at a time, so that both databases use the
/// index.
pub(super) fn any_of<C: ColumnTrait, K: Clone + Into<Value>>(
    project: C,
    column: C,
    keys: &[(i64, K)],
) -> Condition {
    let mut of_project: BTreeMap<i64, Vec<K>> = BTreeMap::new();
    for (project, key) in keys {
        of_project.entry(*project).or_default().push(key.clone());
    }
    let mut condition = Condition::any();
    for (number, keys) in of_project {
        let both = Condition::all().add(project.eq(number));
        condition = condition.add(both.add(column.is_in(keys)));
    }
    condition
}

fn distinct<K: Eq + Hash>(keys: impl Iterator<Item = K>) -> Vec<K> {
    let keys: HashSet<K> = keys.collect();
    keys.into_iter().collect()
}

/// Counts a person's ids in the tables, up to a limit.
pub(super) async fn some_ids_of_person(
    within: &DatabaseTransaction,
    (project, person): (i64, Uuid),
    rows_max: u64,
) -> Result<u64, DbErr> {
    let some = ids::Entity::find()
        .select_only()
        .column(ids::Column::Version)
        .filter(ids::Column::TeamId.eq(project))
        .filter(ids::Column::PersonId.eq(person))
        .limit(rows_max)
        .into_query();
    let mut query = Query::select();
    query
        .expr_as(Expr::cust("COUNT(*)"), "count")
        .from_subquery(some, "some_ids");
    let row = within.query_one(&query).await?;
    let count: i64 = row.map_or(Ok(0), |row| row.try_get("", "count"))?;
    Ok(count.unsigned_abs())
}

/// Reads the ids of persons.
pub(super) async fn ids_of_persons(
    within: &DatabaseTransaction,
    persons: &[(i64, Uuid)],
) -> Result<Vec<ids::Model>, DbErr> {
    let condition = any_of(ids::Column::TeamId, ids::Column::PersonId, persons);
    ids::Entity::find().filter(condition).all(within).await
}
