//! Mapping of Mixpanel's raw export: a line has the event's name and its properties, with its ids
//! and its time among them. `mixpanel_identity` chooses the distinct id.

use super::generated::Generated;
use super::mixpanel_identity::{ExtraEvent, Identity, OwnIds};
use super::{Times, stamp};
use crate::json::{self, Object};
use crate::{EventWriter, Events, Mapping, Options, OptionsError, RecordError, countries, instant};
use millrace_rows::Micros;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Properties that are Mixpanel's own bookkeeping, which are dropped.
const REMOVED: [&str; 7] = [
    "$geo_source",
    "$insert_id",
    "$mp_api_endpoint",
    "$mp_api_timestamp_ms",
    "distinct_id",
    "mp_processing_time_ms",
    "time",
];

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow, default)]
    properties: Object<'a>,
}

/// Mapping of Mixpanel's records.
pub(crate) struct Mixpanel {
    times: Times,
    skips_without_distinct_id: bool,
    identifies: bool,
    group_keys: Vec<String>,
    generated: Generated,
}

impl Mixpanel {
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            times: Times::new(options)?,
            skips_without_distinct_id: options.skip_without_distinct_id,
            identifies: options.identify,
            group_keys: options.group_keys.clone(),
            generated: Generated::new("mixpanel"),
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
        let Some(identity) = Identity::of(&name, properties, self.identifies) else {
            if self.skips_without_distinct_id {
                events.note("skipped_without_distinct_id");
                return Ok(());
            }
            return Err(RecordError::missing_distinct_id(
                "distinct_id, $distinct_id_before_identity, $user_id, $device_id",
            ));
        };
        if let Some(rule) = identity.rule {
            events.note(rule);
        }
        let renamed = new_name(&name, &identity);
        if renamed != name {
            events.note("renamed_event");
        }
        let mut event = events.begin(renamed, &identity.distinct_id, at);
        if let Some(insert_id) = properties.text("$insert_id") {
            event.key(&[
                insert_id.as_bytes(),
                identity.distinct_id.as_bytes(),
                name.as_bytes(),
                time.as_bytes(),
            ]);
        }
        write(&mut event, properties, &identity.own);
        self.write_groups(&mut event, properties);
        stamp(&mut event, "mixpanel");
        event.end();
        self.add_generated(&identity, at, events);
        Ok(())
    }
}

impl Mixpanel {
    /// Generates the event for ids that the record names and its own event cannot.
    fn add_generated(&mut self, identity: &Identity<'_>, at: Micros, events: &mut Events) {
        match &identity.extra {
            Some(ExtraEvent::Identify { user, anonymous }) => {
                self.generated.identify(user, Some(anonymous), at, events);
            }
            Some(ExtraEvent::Merge { target, alias }) => {
                // The alias of an `$identify` is a user's id: mark it as such before the merge.
                if matches!(identity.own, OwnIds::Anonymous(_) | OwnIds::User) {
                    self.generated.identify(alias, None, at, events);
                }
                self.generated.merge(target, alias, at, events);
            }
            None => {}
        }
    }

    /// Writes `$groups` by the properties that name groups; of several of a type, the first.
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

fn new_name<'a>(name: &'a str, identity: &Identity<'_>) -> &'a str {
    match name {
        "$mp_web_page_view" => "$pageview",
        "$merge" if matches!(identity.own, OwnIds::Alias(_)) => "$merge_dangerously",
        other => other,
    }
}

/// Writes the properties, some under our names, and the ids of persons. A record with both names
/// keeps the value under ours.
fn write(event: &mut EventWriter<'_>, properties: &Object<'_>, own: &OwnIds<'_>) {
    let replaced = match own {
        OwnIds::None => "",
        OwnIds::Alias(_) => "alias",
        OwnIds::Anonymous(_) | OwnIds::User => "$anon_distinct_id",
        OwnIds::Unknown => "$process_person_profile",
    };
    for (name, value) in properties.iter() {
        if REMOVED.contains(&name) || name == replaced {
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
    match own {
        OwnIds::None | OwnIds::User => {}
        OwnIds::Anonymous(id) | OwnIds::Alias(id) => {
            event.property(replaced, id);
        }
        OwnIds::Unknown => {
            event.property(replaced, &false);
        }
    }
}
