//! Mapping of Google Analytics 4's export to BigQuery: a row for each event, with parameters as
//! pairs of a name and a value, which is in one of four fields by its type.
//!
//! BigQuery writes whole numbers as texts; they become numbers again by the parameter's type.

use super::properties::{PropertyMap, PropertyValue};
use super::{Times, stamp};
use crate::json::{self, Object};
use crate::{EventWriter, Events, Mapping, Options, OptionsError, RecordError, instant};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Parameters of the event and our names for them.
const PARAMETERS: [(&str, &str); 8] = [
    ("campaign", "utm_campaign"),
    ("content", "utm_content"),
    ("medium", "utm_medium"),
    ("page_location", "$current_url"),
    ("page_referrer", "$referrer"),
    ("page_title", "title"),
    ("source", "utm_source"),
    ("term", "utm_term"),
];
/// Nested columns: the outer two, which may be empty, the inner one, and our name.
const NESTED: [(&str, &str, &str, &str); 30] = [
    ("app_info", "", "id", "$app_namespace"),
    ("app_info", "", "install_source", "ga_install_source"),
    ("app_info", "", "version", "$app_version"),
    ("collected_traffic_source", "", "dclid", "dclid"),
    ("collected_traffic_source", "", "gclid", "gclid"),
    (
        "collected_traffic_source",
        "",
        "manual_campaign_name",
        "utm_campaign",
    ),
    (
        "collected_traffic_source",
        "",
        "manual_content",
        "utm_content",
    ),
    (
        "collected_traffic_source",
        "",
        "manual_medium",
        "utm_medium",
    ),
    (
        "collected_traffic_source",
        "",
        "manual_source",
        "utm_source",
    ),
    ("collected_traffic_source", "", "manual_term", "utm_term"),
    ("device", "", "browser", "$browser"),
    ("device", "", "browser_version", "$browser_version"),
    ("device", "", "language", "$browser_language"),
    ("device", "", "mobile_brand_name", "$device_manufacturer"),
    ("device", "", "mobile_marketing_name", "$device_name"),
    ("device", "", "mobile_model_name", "$device_model"),
    ("device", "", "operating_system", "$os"),
    ("device", "", "operating_system_version", "$os_version"),
    ("device", "web_info", "browser", "$browser"),
    ("device", "web_info", "browser_version", "$browser_version"),
    ("device", "web_info", "hostname", "$host"),
    ("geo", "", "city", "$geoip_city_name"),
    ("geo", "", "continent", "$geoip_continent_name"),
    ("geo", "", "country", "$geoip_country_name"),
    ("geo", "", "metro", "ga_metro"),
    ("geo", "", "region", "$geoip_subdivision_1_name"),
    ("", "", "platform", "platform"),
    ("", "", "stream_id", "ga_stream_id"),
    ("", "", "ecommerce", "ecommerce"),
    ("", "", "items", "items"),
];
/// Fields of the person's first traffic source and our names for them.
const FIRST: [(&str, &str); 3] = [
    ("medium", "$initial_utm_medium"),
    ("name", "$initial_utm_campaign"),
    ("source", "$initial_utm_source"),
];
/// Columns that identify a row among those of its batch.
const IN_BATCH: [&str; 6] = [
    "user_pseudo_id",
    "event_timestamp",
    "event_name",
    "batch_page_id",
    "batch_ordering_id",
    "batch_event_index",
];

/// Mapping of Google Analytics' rows.
pub(crate) struct GoogleAnalytics {
    times: Times,
    skips_without_distinct_id: bool,
}

impl GoogleAnalytics {
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            times: Times::new(options)?,
            skips_without_distinct_id: options.skip_without_distinct_id,
        })
    }
}

impl Mapping for GoogleAnalytics {
    fn map(&mut self, raw: &[u8], events: &mut Events) -> Result<(), RecordError> {
        let row: Object<'_> = json::read(raw)?;
        let name = row
            .text("event_name")
            .ok_or_else(|| RecordError::missing_event("event_name"))?;
        let time = row
            .text("event_timestamp")
            .ok_or_else(|| instant::missing("event_timestamp"))?;
        let at = self.times.epoch("event_timestamp", &time)?;
        let id = row.text("user_id").or_else(|| row.text("user_pseudo_id"));
        let Some(distinct_id) = id else {
            if self.skips_without_distinct_id {
                events.note("skipped_without_distinct_id");
                return Ok(());
            }
            return Err(RecordError::missing_distinct_id("user_id, user_pseudo_id"));
        };
        let ours = match &*name {
            "page_view" => "$pageview",
            "screen_view" => "$screen",
            other => other,
        };
        if ours != name {
            events.note("renamed_event");
        }
        let mut map = properties(&row);
        if ours == "$screen" {
            add_screen_name(&mut map);
        }
        let mut event = events.begin(ours, &distinct_id, at);
        identify(&mut event, &row);
        map.write(&mut event);
        write_person(&mut event, &row);
        stamp(&mut event, "google-analytics");
        event.end();
        Ok(())
    }
}

/// Sets the event's uuid.
///
/// Google gives events no id. Since 2024 a row has its position in the batch. Older rows may be
/// equal in all such columns, so their uuid is made of the record.
fn identify(event: &mut EventWriter<'_>, row: &Object<'_>) {
    let has_position =
        row.get("batch_event_index").is_some() && row.get("batch_ordering_id").is_some();
    if has_position {
        let parts = IN_BATCH.map(|column| row.text(column).unwrap_or_default());
        event.key(&parts.each_ref().map(|part| part.as_bytes()));
    }
}

fn properties<'a>(row: &Object<'a>) -> PropertyMap<'a> {
    let mut map = PropertyMap::default();
    for (name, value) in pairs(row, "event_params") {
        let ours = PARAMETERS.iter().find(|(theirs, _)| *theirs == name);
        match ours {
            Some(_) if value.is_empty_value() => {}
            Some((_, ours)) => map.put(*ours, value),
            None => map.put(name, value),
        }
    }
    add_nested(&mut map, row);
    let kind = row.object("device").text("category");
    map.put_text("$device_type", kind.map(capitalized));
    map.put_text("$device_id", row.text("user_pseudo_id"));
    if let Some(value) = row.text("event_value_in_usd") {
        map.put("ga_value_in_usd", number(value));
    }
    map
}

/// Adds the name of the screen, which also stays under Google's names.
///
/// Mobile libraries call it `firebase_screen` and gtag `screen_name`; without either, the class of
/// the screen is taken. (GA4's BigQuery export schema, and the automatically collected event
/// `screen_view`.)
fn add_screen_name(map: &mut PropertyMap<'_>) {
    let named = ["firebase_screen", "screen_name", "firebase_screen_class"]
        .iter()
        .find_map(|name| {
            map.get(name)
                .filter(|value| !value.is_empty_value())
                .cloned()
        });
    if let Some(name) = named {
        map.put_new("$screen_name", name);
    }
}

/// Pairs of a column, each with its value.
fn pairs<'a>(row: &Object<'a>, column: &str) -> Vec<(Cow<'a, str>, PropertyValue<'a>)> {
    let list = row.get(column).map(json::array).unwrap_or_default();
    let pair = |pair: &'a RawValue| {
        let pair = json::object(pair);
        Some((pair.text("key")?, value(&pair.object("value"))?))
    };
    list.into_iter().filter_map(pair).collect()
}

/// Value of a parameter: the one of the four fields that is not null.
fn value<'a>(value: &Object<'a>) -> Option<PropertyValue<'a>> {
    if let Some(text) = value.get("string_value") {
        return Some(PropertyValue::Raw(text));
    }
    let numbers = ["int_value", "double_value", "float_value"];
    numbers
        .iter()
        .find_map(|field| value.text(field))
        .map(number)
}

/// Reads a number, which BigQuery may write as a text; `NaN` and such stay texts.
fn number(text: Cow<'_, str>) -> PropertyValue<'_> {
    match serde_json::from_str::<serde_json::Number>(&text) {
        Ok(_) => PropertyValue::Number(text),
        Err(_) => PropertyValue::Text(text),
    }
}

/// Adds the values of nested columns; each outer column is read once.
fn add_nested<'a>(map: &mut PropertyMap<'a>, row: &Object<'a>) {
    let (mut read, mut object) = (("", ""), Object::default());
    for (outer, inner, field, ours) in NESTED {
        if read != (outer, inner) {
            read = (outer, inner);
            object = row.object(outer);
            if !inner.is_empty() {
                object = object.object(inner);
            }
        }
        let from = if outer.is_empty() { row } else { &object };
        if let Some(value) = from.get(field).filter(|value| !is_empty(value))
            && let Some(value) = known(value)
        {
            map.put_new(ours, value);
        }
    }
}

/// Placeholders that Google writes for unknown or missing values: a direct visit has the source
/// `(direct)` and the medium `(none)`.
const PLACEHOLDERS: [&str; 4] = [
    "\"(not set)\"",
    "\"(none)\"",
    "\"(direct)\"",
    "\"(data deleted)\"",
];

fn is_placeholder(value: &RawValue) -> bool {
    PLACEHOLDERS.contains(&value.get())
}

fn is_empty(value: &RawValue) -> bool {
    is_placeholder(value) || ["\"\"", "[]", "{}"].contains(&value.get())
}

/// Removes the placeholders from an object or a list of objects; `None` if nothing is left.
///
/// Parameters within `items` stay: their names and values are the customer's.
fn known(value: &RawValue) -> Option<PropertyValue<'_>> {
    let text = value.get();
    if !PLACEHOLDERS.iter().any(|nothing| text.contains(nothing)) {
        return Some(PropertyValue::Raw(value));
    }
    if text.starts_with('[') {
        let list = json::array(value);
        if list.is_empty() {
            // The list has more elements than are read.
            return Some(PropertyValue::Raw(value));
        }
        let known = |item| known_members(item).unwrap_or(PropertyValue::Members(Vec::new()));
        return Some(PropertyValue::Many(list.into_iter().map(known).collect()));
    }
    known_members(value)
}

fn known_members(value: &RawValue) -> Option<PropertyValue<'_>> {
    if !value.get().starts_with('{') {
        return Some(PropertyValue::Raw(value));
    }
    let members = json::object(value).into_members();
    if members.is_empty() {
        return Some(PropertyValue::Raw(value));
    }
    let known = members
        .into_iter()
        .filter(|(_, value)| !is_placeholder(value));
    let known: Vec<_> = known.collect();
    (!known.is_empty()).then_some(PropertyValue::Members(known))
}

impl PropertyValue<'_> {
    fn is_empty_value(&self) -> bool {
        matches!(self, PropertyValue::Raw(value) if is_empty(value))
    }

    fn is_placeholder(&self) -> bool {
        matches!(self, PropertyValue::Raw(value) if is_placeholder(value))
    }
}

fn capitalized(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}", first.to_uppercase(), letters.as_str()).into(),
        None => text,
    }
}

/// Writes the person's properties, without placeholders, which would overwrite known values.
fn write_person(event: &mut EventWriter<'_>, row: &Object<'_>) {
    for (name, value) in pairs(row, "user_properties") {
        if !value.is_placeholder() {
            event.set(&name, &value);
        }
    }
    let first = row.object("traffic_source");
    for (field, ours) in FIRST {
        if let Some(value) = first.get(field).filter(|value| !is_empty(value)) {
            event.set_once(ours, value);
        }
    }
}
