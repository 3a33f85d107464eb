//! Columns of Amplitude whose meaning depends on the platform.
//!
//! | Column | `platform: Web` | everywhere else (iOS, Android, a server) |
//! |---|---|---|
//! | `os_name` | `$browser` | `$os` |
//! | `os_version` | `$browser_version` | `$os_version` |
//! | `device_type` | `$os` | `$device_name` |
//!
//! The columns are those of Amplitude's Export API, which describes them by their names: a phone has `os_name: ios`,
//! `os_version: 14.4` and `device_type: Apple iPhone 12`. Only the browser library fills the first two with the browser and
//! the last with the system.

use super::bag::{Bag, Given};
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

/// Tells whether the record is a browser's.
pub(super) fn is_web(record: &Object<'_>) -> bool {
    record
        .text("platform")
        .is_some_and(|platform| platform.eq_ignore_ascii_case("web"))
}

/// Adds system, browser and device.
pub(super) fn add<'a>(bag: &mut Bag<'a>, record: &Object<'a>) {
    if !is_web(record) {
        add_device(bag, record);
        return;
    }
    for (column, name) in WEB {
        bag.put_raw(name, super::amplitude::filled(record, column));
    }
    if let Some(version) = record.get("os_version") {
        bag.put("$browser_version", whole_number(version));
    }
    let kind = match record.text("device_type").as_deref() {
        Some("Windows" | "Linux") => Some("Desktop"),
        Some("iOS" | "Android") => Some("Mobile"),
        _ => None,
    };
    bag.put_text("$device_type", kind.map(Cow::Borrowed));
}

fn add_device<'a>(bag: &mut Bag<'a>, record: &Object<'a>) {
    for (column, name) in DEVICE {
        bag.put_raw(name, super::amplitude::filled(record, column));
    }
    let Some(system) = record.text("os_name") else {
        return;
    };
    // As our own libraries spell them; Amplitude's write them in small letters.
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
        bag.put_text("$device_type", Some(kind.into()));
    }
    bag.put_text("$os", Some(system));
}

/// A version that is a whole number becomes one.
fn whole_number(value: &RawValue) -> Given<'_> {
    let inner = value.get().trim_matches('"');
    match inner.parse::<i64>() {
        Ok(number) if number.to_string() == inner => Given::Number(inner.into()),
        _ => Given::Raw(value),
    }
}
