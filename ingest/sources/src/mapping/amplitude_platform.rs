//! Columns of Amplitude whose meaning depends on the platform.
//!
//! | Column | `platform: Web` | everywhere else (iOS, Android, a server) |
//! |---|---|---|
//! | `os_name` | `$browser` | `$os` |
//! | `os_version` | `$browser_version` | `$os_version` |
//! | `device_type` | `$os` | `$device_name` |
//!
//! The columns are those of Amplitude's Export API, which describes them by their names: a phone
//! has `os_name: ios`, `os_version: 14.4` and `device_type: Apple iPhone 12`. Only the browser
//! library fills the first two with the browser and the last with the system.

use super::properties::{PropertyMap, PropertyValue};
use crate::json::Object;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Columns of the web under our names.
const WEB: [(&str, &str); 2] = [("os_name", "$browser"), ("device_type", "$os")];
/// Columns of all other platforms under our names.
const DEVICE: [(&str, &str); 2] = [
    ("os_version", "$os_version"),
    ("device_type", "$device_name"),
];

/// Returns true if the record is a browser's.
pub(super) fn is_web(record: &Object<'_>) -> bool {
    record
        .text("platform")
        .is_some_and(|platform| platform.eq_ignore_ascii_case("web"))
}

/// Adds the properties of system, browser and device.
pub(super) fn add<'a>(map: &mut PropertyMap<'a>, record: &Object<'a>) {
    if !is_web(record) {
        add_device(map, record);
        return;
    }
    for (column, name) in WEB {
        map.put_raw(name, filled(record, column));
    }
    if let Some(version) = record.get("os_version") {
        map.put("$browser_version", whole_number(version));
    }
    let kind = match record.text("device_type").as_deref() {
        Some("Windows" | "Linux") => Some("Desktop"),
        Some("iOS" | "Android") => Some("Mobile"),
        _ => None,
    };
    map.put_text("$device_type", kind.map(Cow::Borrowed));
}

fn add_device<'a>(map: &mut PropertyMap<'a>, record: &Object<'a>) {
    for (column, name) in DEVICE {
        map.put_raw(name, filled(record, column));
    }
    let Some(system) = record.text("os_name") else {
        return;
    };
    // Spelt like our own libraries do; Amplitude's write them in lower case.
    let system: Cow<'_, str> = match &*system.to_ascii_lowercase() {
        "ios" => "iOS".into(),
        "ipados" => "iPadOS".into(),
        "android" => "Android".into(),
        _ => system,
    };
    if matches!(&*system, "iOS" | "iPadOS" | "Android") {
        let is_tablet = ["device_type", "device_family", "device_model"]
            .iter()
            .filter_map(|column| record.text(column))
            .any(|text| text.contains("iPad") || text.contains("Tablet"));
        let kind = if is_tablet { "Tablet" } else { "Mobile" };
        map.put_text("$device_type", Some(kind.into()));
    }
    map.put_text("$os", Some(system));
}

/// Turns a version that is a whole number into a number.
fn whole_number(value: &RawValue) -> PropertyValue<'_> {
    let inner = value.get().trim_matches('"');
    match inner.parse::<i64>() {
        Ok(number) if number.to_string() == inner => PropertyValue::Number(inner.into()),
        _ => PropertyValue::Raw(value),
    }
}

/// Value of a column, unless it is empty.
pub(super) fn filled<'a>(record: &Object<'a>, column: &str) -> Option<&'a RawValue> {
    record
        .get(column)
        .filter(|value| !matches!(value.get(), "\"\"" | "{}" | "[]"))
}
