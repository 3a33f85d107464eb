//! Mapping of Amplitude's columns of systems and devices, whose meaning depends on the platform.

use crate::amplitude::mapped;
use serde_json::{Map, Value, json};

const NAMES: [&str; 6] = [
    "$os",
    "$os_version",
    "$browser",
    "$browser_version",
    "$device_type",
    "$device_name",
];

/// Columns, the person's properties of them, and the event's further ones.
fn cases() -> Vec<(Value, Value, Value)> {
    let phone = json!({"platform": "iOS", "os_name": "ios", "os_version": "14.4", "device_type": "Apple iPhone 12",
        "device_family": "Apple iPhone"});
    let tablet = json!({"platform": "Android", "os_name": "android", "os_version": "9", "device_type": "Lenovo Tablet"});
    let desktop = json!({"platform": "Web", "os_name": "Chrome", "os_version": "118", "device_type": "Windows"});
    vec![
        (
            phone,
            json!({"$os": "iOS", "$os_version": "14.4", "$device_type": "Mobile"}),
            json!({"$device_name": "Apple iPhone 12"}),
        ),
        (
            tablet,
            json!({"$os": "Android", "$os_version": "9", "$device_type": "Tablet"}),
            json!({"$device_name": "Lenovo Tablet"}),
        ),
        (
            json!({"platform": "Other", "os_name": "tvos", "device_type": "Apple TV"}),
            json!({"$os": "tvos"}),
            json!({"$device_name": "Apple TV"}),
        ),
        (
            json!({"os_name": "ios"}),
            json!({"$os": "iOS", "$device_type": "Mobile"}),
            json!({}),
        ),
        (
            desktop,
            json!({"$os": "Windows", "$browser": "Chrome", "$browser_version": "118", "$device_type": "Desktop"}),
            json!({}),
        ),
        (
            json!({"platform": "web", "os_version": "15.0", "device_type": "Linux"}),
            json!({"$os": "Linux", "$browser_version": "15.0", "$device_type": "Desktop"}),
            json!({}),
        ),
        (
            json!({"platform": "Web", "os_version": "007", "device_type": "Android"}),
            json!({"$os": "Android", "$browser_version": "007", "$device_type": "Mobile"}),
            json!({}),
        ),
        (
            json!({"platform": "Web", "device_type": "Mac"}),
            json!({"$os": "Mac"}),
            json!({}),
        ),
    ]
}

#[test]
fn the_platform_decides_the_meaning_of_system_and_device() {
    for (columns, persons, only_events) in cases() {
        let event = mapped(columns.clone());
        assert_eq!(*event.property("$set"), persons, "{columns}");
        let mut expected = persons.as_object().unwrap().clone();
        expected.extend(only_events.as_object().unwrap().clone());
        if expected.get("$browser_version") == Some(&json!("118")) {
            // A whole number is one for the event, and a text for the person.
            expected.insert("$browser_version".to_owned(), json!(118));
        }
        let found: Map<_, _> = event
            .properties()
            .into_iter()
            .filter(|(name, _)| NAMES.contains(&name.as_str()))
            .collect();
        assert_eq!(found, expected, "{columns}");
    }
}
