//! Tests of who has which distinct id, in every order of arrival.

use super::super::person_state::PersonState;
use super::super::update::{PersonUpdate, UpdatePosition};
use millrace_rows::{Micros, ProjectId, UpdateKind, person_id};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const PROJECT: ProjectId = ProjectId(1);

/// Use of a device: user, device, time.
pub type DeviceUse = (&'static str, &'static str, i64);

pub fn update_of(kind: UpdateKind, (id, other, at): DeviceUse) -> PersonUpdate {
    PersonUpdate {
        project_id: PROJECT,
        position: UpdatePosition {
            created_at: Micros(0),
            request_id: Uuid::nil(),
            index: 0,
        },
        uuid: Uuid::new_v5(
            &Uuid::NAMESPACE_OID,
            format!("{id} {other} {at}").as_bytes(),
        ),
        timestamp: Micros(at),
        kind,
        distinct_id: id.to_owned(),
        other_id: other.to_owned(),
        person_set: format!("{{\"{id}\":{at}}}"),
        person_set_once: String::new(),
        person_unset: String::new(),
        group_type: String::new(),
        group_key: String::new(),
        group_set: String::new(),
    }
}

fn identify(used: DeviceUse) -> PersonUpdate {
    update_of(UpdateKind::Identify, used)
}

/// `$identify` without another id, or with its own in its place.
fn named(user: &'static str, at: i64) -> PersonUpdate {
    let other = if at % 2 == 0 { user } else { "" };
    identify((user, other, at))
}

/// Event of an id, before or after anybody was identified.
fn seen(id: &'static str, at: i64) -> PersonUpdate {
    update_of(UpdateKind::Properties, (id, "", at))
}

fn state(updates: &[PersonUpdate]) -> PersonState {
    let mut state = PersonState::default();
    updates.iter().for_each(|update| state.apply(update));
    state
}

fn person(state: &PersonState, id: &str) -> Uuid {
    state.person_of(PROJECT.0, id).unwrap()
}

/// All orders of a few updates.
fn orders(updates: &[PersonUpdate]) -> Vec<Vec<PersonUpdate>> {
    let Some((first, rest)) = updates.split_first() else {
        return vec![Vec::new()];
    };
    let with_first = orders(rest).into_iter().flat_map(|order| {
        (0..=order.len()).map(move |place| {
            let mut order = order.clone();
            order.insert(place, first.clone());
            order
        })
    });
    with_first.collect()
}

/// Renders persons, their ids and each record's properties as text that no order may change.
fn result(state: &PersonState) -> String {
    let ids: BTreeMap<_, _> = state.ids.iter().collect();
    let persons: BTreeMap<_, _> = state.persons.iter().collect();
    let persons = persons.into_iter().map(|(key, person)| {
        let (made, text) = (person.created_at, person.properties.registers.to_json());
        let (named, gone) = (person.is_identified, person.is_deleted);
        format!("{key:?} {made} {named} {gone} {text}\n")
    });
    format!("{ids:?}\n{}", persons.collect::<String>())
}

/// Users and devices of a case, and the groups of ids that belong together in the end.
type SharedDeviceCase = (
    &'static str,
    Vec<PersonUpdate>,
    &'static [&'static [&'static str]],
);

/// Cases of users whose ids are devices', too.
fn users_as_devices() -> [SharedDeviceCase; 4] {
    [
        (
            "a user whose device is called as it is, and the next one on it",
            vec![
                seen("u1", 1),
                named("u1", 2),
                identify(("u2", "u1", 3)),
                seen("u1", 4),
            ],
            &[&["u1"], &["u2"]],
        ),
        (
            "users without devices that are taken for devices before",
            vec![
                identify(("u3", "u2", 1)),
                identify(("u3", "d1", 2)),
                named("u2", 3),
                named("u2", 4),
                seen("u2", 5),
            ],
            &[&["d1", "u3"], &["u2"]],
        ),
        (
            "an id that is a user's and was taken for a device's",
            vec![
                seen("cust", 1),
                identify(("cust", "phone", 6)),
                identify(("agent", "cust", 7)),
                seen("cust", 8),
            ],
            &[&["agent"], &["cust", "phone"]],
        ),
        (
            "users that are all taken for each other's devices",
            [("a", "b", 1), ("b", "c", 2), ("c", "d", 3), ("d", "a", 4)]
                .map(identify)
                .to_vec(),
            &[&["a"], &["b"], &["c"], &["d"]],
        ),
    ]
}

fn shared_devices() -> [SharedDeviceCase; 5] {
    [
        (
            "two users of one device",
            vec![
                seen("d1", 1),
                identify(("alice", "d1", 2)),
                seen("alice", 3),
                identify(("erik", "d1", 4)),
            ],
            &[&["alice", "d1"], &["erik"]],
        ),
        (
            "nobody before them",
            vec![
                identify(("alice", "d1", 1)),
                identify(("erik", "d1", 2)),
                seen("d1", 3),
            ],
            &[&["alice", "d1"], &["erik"]],
        ),
        (
            "five users of two devices",
            vec![
                identify(("u1", "d1", 1)),
                identify(("u2", "d2", 2)),
                identify(("u3", "d1", 3)),
                identify(("u4", "d2", 4)),
                identify(("u5", "d1", 5)),
                seen("d2", 6),
            ],
            &[&["d1", "u1"], &["d2", "u2"], &["u3"], &["u4"], &["u5"]],
        ),
        (
            "one user of two devices",
            vec![
                seen("d2", 1),
                identify(("alice", "d1", 2)),
                identify(("alice", "d2", 3)),
                identify(("erik", "d2", 4)),
            ],
            &[&["alice", "d1", "d2"], &["erik"]],
        ),
        (
            "users that take turns",
            vec![
                identify(("erik", "d1", 1)),
                identify(("alice", "d1", 2)),
                identify(("erik", "d1", 3)),
            ],
            &[&["alice"], &["d1", "erik"]],
        ),
    ]
}

#[test]
fn a_device_belongs_to_its_earliest_user_and_users_stay_apart() {
    for (name, updates, expected) in users_as_devices().into_iter().chain(shared_devices()) {
        let first = result(&state(&updates));
        for order in orders(&updates) {
            let mut state = state(&order);
            let mut together: BTreeMap<Uuid, BTreeSet<&str>> = BTreeMap::new();
            for (_, id) in state.ids.keys() {
                together.entry(person(&state, id)).or_default().insert(id);
            }
            let together: BTreeSet<Vec<&str>> = together
                .into_values()
                .map(|ids| ids.into_iter().collect())
                .collect();
            let expected: BTreeSet<Vec<&str>> = expected.iter().map(|ids| ids.to_vec()).collect();
            assert_eq!(together, expected, "{name}");
            assert_eq!(result(&state), first, "{name}: {order:?}");
            // An update that is applied again changes nothing.
            order.iter().for_each(|update| state.apply(update));
            assert_eq!(result(&state), first, "{name}, again: {order:?}");
        }
    }
}

#[test]
fn a_user_is_never_attached_to_one_who_is_identified() {
    let table = [
        // A second user on a device whose first user was there before.
        (UpdateKind::Identify, ("erik", "d1", 5), "alice", false),
        // An id of another user is not anonymous.
        (UpdateKind::Identify, ("erik", "alice", 5), "alice", false),
        (UpdateKind::Identify, ("erik", "alice", 1), "alice", false),
        // Explicit merges join known users.
        (UpdateKind::Alias, ("erik", "alice", 5), "alice", true),
        (UpdateKind::Merge, ("erik", "alice", 5), "alice", true),
    ];
    for is_known in [false, true] {
        for (kind, used, other, is_one) in table {
            let mut before = vec![identify(("alice", "d1", 2))];
            before.extend(is_known.then(|| seen("erik", 3)));
            let mut state = state(&before);
            state.apply(&update_of(kind, used));
            // An alias of a known user does not become part of another one.
            let is_one = is_one && (!is_known || kind == UpdateKind::Merge);
            let are_one = person(&state, "erik") == person(&state, other);
            assert_eq!(are_one, is_one, "{kind:?} {used:?} {is_known}");
            assert_eq!(state.stats.refused, u64::from(!is_one), "{kind:?} {used:?}");
            if !is_one {
                assert_eq!(person(&state, "erik"), person_id(PROJECT, "erik"));
                let erik = &state.persons[&(PROJECT.0, person_id(PROJECT, "erik"))];
                assert!(erik.is_identified);
            }
        }
    }
}

#[test]
fn a_device_that_moves_takes_along_its_own_properties_only() {
    let mut state = state(&[
        seen("d1", 1),
        identify(("alice", "d1", 6)),
        seen("d1", 7),
        identify(("erik", "d1", 4)),
        seen("d1", 8),
    ]);
    let text = |state: &PersonState, id| {
        let record = &state.persons[&(PROJECT.0, person_id(PROJECT, id))];
        record.properties.registers.to_json()
    };
    assert_eq!(person(&state, "d1"), person(&state, "erik"));
    assert_eq!(text(&state, "alice"), r#"{"alice":6}"#);
    assert_eq!(text(&state, "erik"), r#"{"erik":4}"#);
    assert_eq!(text(&state, "d1"), r#"{"d1":8}"#);
    // The person that has the device may become another one's device, and takes it along.
    state.apply(&seen("bob", 2));
    state.apply(&update_of(UpdateKind::Merge, ("bob", "erik", 9)));
    state.apply(&identify(("carol", "d1", 5)));
    assert_eq!(person(&state, "d1"), person(&state, "bob"));
    state.apply(&identify(("carol", "d1", 3)));
    assert_eq!(person(&state, "d1"), person(&state, "carol"));
    assert_eq!(person(&state, "erik"), person(&state, "bob"));
}

#[test]
fn an_id_that_was_merged_for_good_never_moves_again() {
    use UpdateKind::{Alias, Merge};
    // Sent for an id that the person has by `$identify`, naming either of the two ids, by either of
    // the events.
    for kind in [Alias, Merge] {
        for (id, other) in [
            ("alice", "d1"),
            ("d1", "alice"),
            ("d1", "new"),
            ("new", "d1"),
        ] {
            let updates = [
                identify(("alice", "d1", 5)),
                seen("d1", 6),
                update_of(kind, (id, other, 7)),
                identify(("erik", "d1", 1)),
            ];
            let state = state(&updates);
            let case = format!("{kind:?} {id} {other}");
            for id in ["d1", id, other] {
                assert_eq!(person(&state, id), person_id(PROJECT, "alice"), "{case}");
            }
            assert_eq!(person(&state, "erik"), person_id(PROJECT, "erik"), "{case}");
            // Properties of its own are the person's now, once.
            assert_eq!(state.known(PROJECT.0, "d1").unwrap().identified, None);
            let text = |id| {
                let record = &state.persons[&(PROJECT.0, person_id(PROJECT, id))];
                record.properties.registers.to_json()
            };
            assert_eq!(text("d1"), "{}", "{case}");
            assert!(text("alice").contains("\"d1\":"), "{case}");
            assert_eq!(state.stats.refused, 1, "{case}");
        }
    }
    // A refused merge changes nothing.
    let updates = [
        identify(("alice", "d1", 5)),
        named("bob", 6),
        update_of(Alias, ("bob", "d1", 7)),
        identify(("erik", "d1", 1)),
    ];
    let state = state(&updates);
    assert_eq!(person(&state, "d1"), person(&state, "erik"));
    assert_eq!(state.stats.refused, 1);
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Identify(DeviceUse),
    Seen(&'static str, i64),
}

/// Ids that an import makes up, and events of users and devices.
fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let user = || prop::sample::select(vec!["u1", "u2", "u3", "both"]);
    let device = || prop::sample::select(vec!["d1", "d2", "both", ""]);
    let operation = prop_oneof![
        (user(), device(), 0..9_i64).prop_map(Operation::Identify),
        (user(), 0..9_i64).prop_map(|(user, at)| Operation::Identify((user, user, at))),
        (prop_oneof![user(), device()], 0..9_i64)
            .prop_filter("an id", |(id, _)| !id.is_empty())
            .prop_map(|(id, at)| Operation::Seen(id, at)),
    ];
    prop::collection::vec(operation, 0..24)
}

proptest! {
    #[test]
    fn identifies_never_join_two_users_in_any_order(
        operations in operations(),
        seed in any::<u64>(),
    ) {
        let updates: Vec<PersonUpdate> = operations.iter().map(|operation| match *operation {
            Operation::Identify(used) => identify(used),
            Operation::Seen(id, at) => seen(id, at),
        }).collect();
        let state = state(&updates);
        // The model: the earliest use of a device decides its user, and a user is nobody's device.
        let users: BTreeSet<&str> = updates
            .iter()
            .filter(|it| it.kind == UpdateKind::Identify)
            .map(|it| it.distinct_id.as_str())
            .collect();
        let mut first: BTreeMap<&str, (i64, Uuid, &str)> = BTreeMap::new();
        for update in updates.iter().filter(|it| it.kind == UpdateKind::Identify) {
            let used = (update.timestamp.0, update.uuid, update.distinct_id.as_str());
            let earliest = first.entry(update.other_id.as_str()).or_insert(used);
            *earliest = (*earliest).min(used);
        }
        for (_, id) in state.ids.keys() {
            prop_assert!(!id.is_empty());
            let device = first.get(id.as_str()).filter(|_| !users.contains(id.as_str()));
            let owner = device.map_or(id.as_str(), |(.., user)| user);
            prop_assert_eq!(person(&state, id), person_id(PROJECT, owner), "{}", id);
        }
        let mut others = updates;
        let mut seed = seed;
        for place in (1..others.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            others.swap(place, (seed >> 33) as usize % (place + 1));
        }
        prop_assert_eq!(result(&self::state(&others)), result(&state));
    }
}
