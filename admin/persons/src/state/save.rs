//! Writes the changes of updates into the tables.

use super::identities::KnownId;
use super::load::{SLICE, ids_of_persons};
use super::person_state::PersonState;
use millrace_catalog::UtcTime;
use millrace_catalog::entities::{group_types, groups, person_distinct_ids as ids, persons};
use sea_orm::sea_query::OnConflict;
use sea_orm::{DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel};
use std::collections::HashSet;
use std::hash::Hash;

/// Writes all changes, with the number of this step.
pub(super) async fn save(
    within: &DatabaseTransaction,
    mut state: PersonState,
    version: i64,
) -> Result<(), DbErr> {
    state.new_ids.save(within).await?;
    move_ids(within, &mut state).await?;
    save_persons(within, &state, version).await?;
    save_ids(within, &state, version).await?;
    save_types(within, &state).await?;
    save_groups(within, &state, version).await
}

/// Moves the ids of merged persons, also those that no update named.
async fn move_ids(within: &DatabaseTransaction, state: &mut PersonState) -> Result<(), DbErr> {
    let sources = sorted(state.moved.keys().copied().collect());
    for slice in sources.chunks(SLICE) {
        for row in ids_of_persons(within, slice).await? {
            let known = KnownId::from(&row);
            let key = (row.team_id, row.distinct_id);
            state.ids.entry(key.clone()).or_insert(Some(known));
            state.changed_ids.insert(key);
        }
    }
    Ok(())
}

async fn save_persons(
    within: &DatabaseTransaction,
    state: &PersonState,
    version: i64,
) -> Result<(), DbErr> {
    let keys = sorted(state.changed_persons.clone());
    let mut again = OnConflict::columns([persons::Column::TeamId, persons::Column::Id]);
    again.update_columns([
        persons::Column::CreatedAt,
        persons::Column::IsIdentified,
        persons::Column::IsDeleted,
        persons::Column::Properties,
        persons::Column::Version,
    ]);
    for slice in keys.chunks(SLICE) {
        let rows = slice.iter().filter_map(|key| {
            let person = state.persons.get(key)?;
            let row = persons::Model {
                team_id: key.0,
                id: key.1,
                created_at: UtcTime(person.created_at),
                is_identified: person.is_identified,
                is_deleted: person.is_deleted,
                properties: person.properties.registers.to_text(),
                version,
            };
            Some(row.into_active_model())
        });
        persons::Entity::insert_many(rows)
            .on_conflict(again.clone())
            .exec_without_returning(within)
            .await?;
    }
    Ok(())
}

async fn save_ids(
    within: &DatabaseTransaction,
    state: &PersonState,
    version: i64,
) -> Result<(), DbErr> {
    let keys = sorted(state.changed_ids.clone());
    let mut again = OnConflict::columns([ids::Column::TeamId, ids::Column::DistinctId]);
    again.update_columns([
        ids::Column::PersonId,
        ids::Column::IdentifiedAt,
        ids::Column::IdentifiedBy,
        ids::Column::Version,
    ]);
    for slice in keys.chunks(SLICE) {
        let rows = slice.iter().filter_map(|(project, distinct_id)| {
            let known = state.known(*project, distinct_id)?;
            let row = ids::Model {
                team_id: *project,
                distinct_id: distinct_id.clone(),
                person_id: known.person,
                identified_at: known.identified.map(|first| UtcTime(first.at)),
                identified_by: known.identified.map(|first| first.by),
                version,
            };
            Some(row.into_active_model())
        });
        ids::Entity::insert_many(rows)
            .on_conflict(again.clone())
            .exec_without_returning(within)
            .await?;
    }
    Ok(())
}

async fn save_types(within: &DatabaseTransaction, state: &PersonState) -> Result<(), DbErr> {
    for (project, name) in sorted(state.changed_types.clone()) {
        let types = state.group_types.get(&project).into_iter().flatten();
        let Some((_, position)) = types.zip(0_i16..).find(|(known, _)| **known == name) else {
            continue;
        };
        let row = group_types::Model {
            team_id: project,
            name,
            position,
        };
        group_types::Entity::insert(row.into_active_model())
            .exec_without_returning(within)
            .await?;
    }
    Ok(())
}

async fn save_groups(
    within: &DatabaseTransaction,
    state: &PersonState,
    version: i64,
) -> Result<(), DbErr> {
    let keys = sorted(state.changed_groups.clone());
    let mut again = OnConflict::columns([
        groups::Column::TeamId,
        groups::Column::GroupType,
        groups::Column::GroupKey,
    ]);
    again.update_columns([
        groups::Column::CreatedAt,
        groups::Column::Properties,
        groups::Column::Version,
    ]);
    for slice in keys.chunks(SLICE) {
        let rows = slice.iter().filter_map(|key| {
            let group = state.groups.get(key)?.as_ref()?;
            let (project_id, group_type, group_key) = key.clone();
            let row = groups::Model {
                team_id: project_id,
                group_type,
                group_key,
                created_at: UtcTime(group.created_at),
                properties: group.properties.registers.to_text(),
                version,
            };
            Some(row.into_active_model())
        });
        groups::Entity::insert_many(rows)
            .on_conflict(again.clone())
            .exec_without_returning(within)
            .await?;
    }
    Ok(())
}

/// Sorts keys in the order of the index, where neighbours are written together.
fn sorted<K: Ord + Hash>(keys: HashSet<K>) -> Vec<K> {
    let mut keys: Vec<K> = keys.into_iter().collect();
    keys.sort_unstable();
    keys
}
