//! Mixpanel's raw export: a line has the event's name and its properties, among which are whose it is and when
//! it was.
//!
//! The `distinct_id` of an export is canonical: the one id of all that Mixpanel has merged, under either of its ID Merges.
//! So it is taken as it stands, whatever it looks like; what the event was sent with (`$distinct_id_before_identity`)
//! would tear one person into several.

use super::{Times, stamp};
use crate::json::{self, Object};
use crate::{EventWriter, Events, Mapping, Options, OptionsError, RecordError, countries, instant};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Mixpanel's own bookkeeping, which says nothing of the event.
const REMOVED: [&str; 7] = [
    "$geo_source",
    "$insert_id",
    "$mp_api_endpoint",
    "$mp_api_timestamp_ms",
    "distinct_id",
    "mp_processing_time_ms",
    "time",
];

/// How the ids begin that Simplified ID Merge gives to devices without a user.
const DEVICE_PREFIX: &str = "$device:";

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow, default)]
    properties: Object<'a>,
}

/// See the module.
pub(crate) struct Mixpanel {
    times: Times,
    skips_nobodys: bool,
    identifies: bool,
    group_keys: Vec<String>,
}

impl Mixpanel {
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            times: Times::new(options)?,
            skips_nobodys: options.skip_without_distinct_id,
            identifies: options.identify,
            group_keys: options.group_keys.clone(),
        })
    }
}

impl Mapping for Mixpanel {
    fn map(&mut self, raw: &[u8], events: &mut Events) -> Result<(), RecordError> {
        let record: Record<'_> = json::read(raw)?;
        let properties = &record.properties;
        let name = record.event.and_then(json::text);
        let name = name.ok_or_else(|| RecordError::missing_event("event"))?;
        let time = properties
            .text("time")
            .ok_or_else(|| instant::missing("time"))?;
        let at = self.times.local_epoch("time", &time)?;
        let Some(who) = Who::of(&name, properties, self.identifies) else {
            if self.skips_nobodys {
                events.note("skipped_without_distinct_id");
                return Ok(());
            }
            return Err(RecordError::missing_distinct_id(
                "distinct_id, $distinct_id_before_identity, $user_id, $device_id",
            ));
        };
        if let Some(rule) = who.rule {
            events.note(rule);
        }
        let renamed = new_name(&name, &who);
        if renamed != name {
            events.note("renamed_event");
        }
        let mut event = events.begin(renamed, &who.distinct_id, at);
        if let Some(insert_id) = properties.text("$insert_id") {
            event.key(&[
                insert_id.as_bytes(),
                who.distinct_id.as_bytes(),
                name.as_bytes(),
                time.as_bytes(),
            ]);
        }
        write(&mut event, properties);
        if let Some((name, other)) = &who.other {
            event.property(name, other);
        }
        self.write_groups(&mut event, properties);
        stamp(&mut event, "mixpanel");
        event.end();
        Ok(())
    }
}

impl Mixpanel {
    /// `$groups` by the properties that are said to name groups; of several of a type, the first.
    fn write_groups(&self, event: &mut EventWriter<'_>, properties: &Object<'_>) {
        let named = self.group_keys.iter().filter_map(|group_type| {
            let value = properties.get(group_type)?;
            let key = json::text(value)
                .or_else(|| json::array(value).into_iter().find_map(json::text))?;
            Some((group_type, key))
        });
        let groups: Vec<_> = named.collect();
        if !groups.is_empty() {
            event.property("$groups", &super::Members(&groups));
        }
    }
}

/// Whose event it is.
struct Who<'a> {
    distinct_id: Cow<'a, str>,
    /// Where two persons are said to be one: the property that says so, and the other's id.
    other: Option<(&'static str, Cow<'a, str>)>,
    /// Where it was not simply the `distinct_id`.
    rule: Option<&'static str>,
}

impl<'a> Who<'a> {
    fn of(event: &str, properties: &Object<'a>, identifies: bool) -> Option<Self> {
        if identifies && let Some(merge) = Self::of_merge(event, properties) {
            return Some(merge);
        }
        let id = properties.text("distinct_id");
        let user = || properties.text("$user_id");
        let before = || {
            let before = properties
                .get("$distinct_id_before_identity")
                .and_then(json::string)?;
            (!before.trim().is_empty()).then_some(before)
        };
        let (distinct_id, rule) = match id {
            Some(id) => match user().filter(|_| id.starts_with(DEVICE_PREFIX)) {
                Some(user) => (user, Some("distinct_id_from_user_or_device")),
                None => (id, None),
            },
            None => match before() {
                Some(before) => (before, Some("distinct_id_before_identity")),
                None => (
                    user().or_else(|| properties.text("$device_id"))?,
                    Some("distinct_id_from_user_or_device"),
                ),
            },
        };
        Some(Self {
            distinct_id,
            other: None,
            rule,
        })
    }

    /// Mixpanel's events that make one person of two.
    fn of_merge(event: &str, properties: &Object<'a>) -> Option<Self> {
        let (distinct_id, other) = match event {
            "$identify" => {
                let other = ("$anon_distinct_id", properties.text("$anon_id")?);
                (properties.text("$identified_id")?, other)
            }
            "$merge" => {
                let ids = json::array(properties.get("$distinct_ids")?);
                let mut ids = ids.into_iter().filter_map(json::text);
                (ids.next()?, ("alias", ids.next()?))
            }
            _ => return None,
        };
        Some(Self {
            distinct_id,
            other: Some(other),
            rule: Some("merged_persons"),
        })
    }
}

fn new_name<'a>(name: &'a str, who: &Who<'_>) -> &'a str {
    match name {
        "$mp_web_page_view" => "$pageview",
        "$merge" if who.other.is_some() => "$merge_dangerously",
        other => other,
    }
}

/// The properties, some under the names that they have here. One that has both names keeps what stands under ours.
fn write(event: &mut EventWriter<'_>, properties: &Object<'_>) {
    for (name, value) in properties.iter() {
        if REMOVED.contains(&name) {
            continue;
        }
        let ours = match name {
            "$city" => "$geoip_city_name",
            "$region" => "$geoip_subdivision_1_name",
            "mp_country_code" => "$geoip_country_code",
            kept => kept,
        };
        if ours != name && properties.has(ours) {
            continue;
        }
        event.property(ours, value);
        if name == "mp_country_code"
            && !properties.has("$geoip_country_name")
            && let Some(country) = json::string(value).as_deref().and_then(countries::name)
        {
            event.property("$geoip_country_name", country);
        }
    }
}
