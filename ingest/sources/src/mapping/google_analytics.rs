//! Google Analytics 4, as it exports to BigQuery: a row an event, its parameters as pairs of a name and a value that
//! is one of four by its type.
//!
//! BigQuery writes whole numbers as texts; they become numbers again, as a parameter's type says which they are.

use super::bag::{Bag, Given};
use super::{Times, stamp};
use crate::json::{self, Object};
use crate::{EventWriter, Events, Mapping, Options, OptionsError, RecordError, instant};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Parameters of the event that have a name here.
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
/// Columns in columns in columns: the outer two, which may be none, the inner one, and our name.
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
/// What brought the person here first.
const FIRST: [(&str, &str); 3] = [
    ("medium", "$initial_utm_medium"),
    ("name", "$initial_utm_campaign"),
    ("source", "$initial_utm_source"),
];
/// What makes a row one among those of its batch.
const IN_BATCH: [&str; 6] = [
    "user_pseudo_id",
    "event_timestamp",
    "event_name",
    "batch_page_id",
    "batch_ordering_id",
    "batch_event_index",
];

/// See the module.
pub(crate) struct GoogleAnalytics {
    times: Times,
    skips_nobodys: bool,
}

impl GoogleAnalytics {
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            times: Times::new(options)?,
            skips_nobodys: options.skip_without_distinct_id,
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
            if self.skips_nobodys {
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
        let mut bag = properties(&row);
        if ours == "$screen" {
            add_screen_name(&mut bag);
        }
        let mut event = events.begin(ours, &distinct_id, at);
        identify(&mut event, &row);
        bag.write(&mut event);
        write_person(&mut event, &row);
        stamp(&mut event, "google-analytics");
        event.end();
        Ok(())
    }
}

/// Google gives events no id. Since 2024 a row says which it is of its batch; of older ones two may be equal in all
/// that could tell them apart, so there the record is the id.
fn identify(event: &mut EventWriter<'_>, row: &Object<'_>) {
    let has_place =
        row.get("batch_event_index").is_some() && row.get("batch_ordering_id").is_some();
    if has_place {
        let parts = IN_BATCH.map(|column| row.text(column).unwrap_or_default());
        event.key(&parts.each_ref().map(|part| part.as_bytes()));
    }
}

fn properties<'a>(row: &Object<'a>) -> Bag<'a> {
    let mut bag = Bag::default();
    for (name, value) in pairs(row, "event_params") {
        let ours = PARAMETERS.iter().find(|(theirs, _)| *theirs == name);
        match ours {
            Some(_) if value.is_nothing() => {}
            Some((_, ours)) => bag.put(*ours, value),
            None => bag.put(name, value),
        }
    }
    add_nested(&mut bag, row);
    let kind = row.object("device").text("category");
    bag.put_text("$device_type", kind.map(capitalized));
    bag.put_text("$device_id", row.text("user_pseudo_id"));
    if let Some(value) = row.text("event_value_in_usd") {
        bag.put("ga_value_in_usd", number(value));
    }
    bag
}

/// Adds the name of the screen, which stays under Google's names as well. Libraries for phones call it
/// `firebase_screen` and gtag `screen_name`; where an application names none, its class is all there is. (GA4's BigQuery
/// export schema, and the automatically collected event `screen_view`.)
fn add_screen_name(bag: &mut Bag<'_>) {
    let named = ["firebase_screen", "screen_name", "firebase_screen_class"]
        .iter()
        .find_map(|name| bag.get(name).filter(|value| !value.is_nothing()).cloned());
    if let Some(name) = named {
        bag.put_new("$screen_name", name);
    }
}

/// The pairs of a column, each with the value that it has.
fn pairs<'a>(row: &Object<'a>, column: &str) -> Vec<(Cow<'a, str>, Given<'a>)> {
    let list = row.get(column).map(json::array).unwrap_or_default();
    let pair = |pair: &'a RawValue| {
        let pair = json::object(pair);
        Some((pair.text("key")?, value(&pair.object("value"))?))
    };
    list.into_iter().filter_map(pair).collect()
}

/// The one of the four that is not null.
fn value<'a>(value: &Object<'a>) -> Option<Given<'a>> {
    if let Some(text) = value.get("string_value") {
        return Some(Given::Raw(text));
    }
    let numbers = ["int_value", "double_value", "float_value"];
    numbers
        .iter()
        .find_map(|field| value.text(field))
        .map(number)
}

/// A number, also where BigQuery has written it as a text; `NaN` and such stay texts.
fn number(text: Cow<'_, str>) -> Given<'_> {
    match serde_json::from_str::<serde_json::Number>(&text) {
        Ok(_) => Given::Number(text),
        Err(_) => Given::Text(text),
    }
}

/// What stands in columns of columns; each of those is read once.
fn add_nested<'a>(bag: &mut Bag<'a>, row: &Object<'a>) {
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
            bag.put_new(ours, value);
        }
    }
}

/// What Google writes for what it does not know, or what is not there: of a visit that nothing led to, the source is
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

/// A column without those of its fields that are placeholders, be it an object or a list of objects; nothing if it had
/// no others. Parameters within `items` stay: their names, and what they hold, are the customer's.
fn known(value: &RawValue) -> Option<Given<'_>> {
    let text = value.get();
    if !PLACEHOLDERS.iter().any(|nothing| text.contains(nothing)) {
        return Some(Given::Raw(value));
    }
    if text.starts_with('[') {
        let list = json::array(value);
        if list.is_empty() {
            // It has more than is looked at.
            return Some(Given::Raw(value));
        }
        let known = |item| known_members(item).unwrap_or(Given::Members(Vec::new()));
        return Some(Given::Many(list.into_iter().map(known).collect()));
    }
    known_members(value)
}

fn known_members(value: &RawValue) -> Option<Given<'_>> {
    if !value.get().starts_with('{') {
        return Some(Given::Raw(value));
    }
    let members = json::object(value).into_members();
    if members.is_empty() {
        return Some(Given::Raw(value));
    }
    let known = members
        .into_iter()
        .filter(|(_, value)| !is_placeholder(value));
    let known: Vec<_> = known.collect();
    (!known.is_empty()).then_some(Given::Members(known))
}

impl Given<'_> {
    fn is_nothing(&self) -> bool {
        matches!(self, Given::Raw(value) if is_empty(value))
    }

    fn is_placeholder(&self) -> bool {
        matches!(self, Given::Raw(value) if is_placeholder(value))
    }
}

fn capitalized(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}", first.to_uppercase(), letters.as_str()).into(),
        None => text,
    }
}

/// Writes what becomes known of the person. A placeholder would overwrite what is known.
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
