//! Devices that several users have used, applied and shown.

use super::{apply, kept, update};
use millrace_catalog::testing::TestDatabase;
use millrace_organizations::testing::fixture::{Fixture, NOW};
use millrace_rows::{Micros, UpdateKind, person_id};
use serde_json::{Value, json};

millrace_catalog::on_both!(properties_of_a_device_are_shown_with_its_first_user);

/// Event of an id, with the device that it identifies, its time and its properties.
type DeviceEvent = (&'static str, Option<&'static str>, i64, Value);
/// Person, the time of its first event, and its properties.
type ShownPerson = (&'static str, i64, Value);

/// Events, the device's user after each of them, and the persons as they are shown then.
fn uses_of_a_device() -> [(DeviceEvent, &'static str, Vec<ShownPerson>); 5] {
    let alice = ("alice", 6, json!({"plan": "large", "os": "Windows"}));
    let erik = (
        "erik",
        1,
        json!({"page": "/a", "os": "Linux", "plan": "small"}),
    );
    let with_device = |page: &str| {
        let shown = json!({"page": page, "plan": "large", "os": "Windows"});
        vec![("alice", 1, shown)]
    };
    let nobodys = json!({"page": "/", "os": "Linux"});
    [
        (
            ("d1", None, 1, nobodys.clone()),
            "d1",
            vec![("d1", 1, nobodys)],
        ),
        (
            ("alice", Some("d1"), 6, alice.2.clone()),
            "alice",
            with_device("/"),
        ),
        (
            ("d1", None, 7, json!({"page": "/a"})),
            "alice",
            with_device("/a"),
        ),
        // An earlier event, which arrives late.
        (
            ("erik", Some("d1"), 4, json!({"plan": "small"})),
            "erik",
            vec![alice.clone(), erik.clone()],
        ),
        (
            ("carol", Some("d1"), 5, json!({})),
            "erik",
            vec![alice, erik],
        ),
    ]
}

async fn properties_of_a_device_are_shown_with_its_first_user(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let project = fixture.project_id;
    for ((event, owner, expected), number) in uses_of_a_device().into_iter().zip(1..) {
        let (id, device, at, set) = event;
        let mut update = update(project, number);
        update.timestamp = Micros(NOW.0 + at);
        update.distinct_id = id.to_owned();
        update.person_set = set.to_string();
        if let Some(device) = device {
            update.kind = UpdateKind::Identify;
            update.other_id = device.to_owned();
        }
        // Each in a transaction of its own.
        let refused = apply(&fixture.catalog, &[update]).await.refused;
        assert_eq!(refused, u64::from(id == "carol"));
        let (ids, _) = kept(&fixture.catalog).await;
        let shown = |id: &str| &ids[&(project.0, id.to_owned())];
        assert_eq!(shown("d1"), shown(owner), "{number}");
        for (person, at, properties) in expected {
            let is_user = person != "d1";
            let expected = (person_id(project, person), is_user, NOW.0 + at, properties);
            assert_eq!(*shown(person), expected, "{number}: {person}");
        }
    }
}
