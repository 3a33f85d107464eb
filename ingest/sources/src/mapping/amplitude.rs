//! Mapping of Amplitude's export: a line has Amplitude's columns, and objects with the properties
//! of the event, the user and the groups.

use super::generated::Generated;
use super::properties::{PropertyMap, PropertyValue};
use super::{Times, amplitude_platform as platform, stamp};
use crate::json::{self, Object};
use crate::{EventWriter, Events, Mapping, Options, OptionsError, RecordError, instant};
use millrace_rows::Micros;
use std::borrow::Cow;
use uuid::Uuid;

/// Columns and our names for them, as properties of the event.
const COLUMNS: [(&str, &str); 6] = [
    ("user_id", "$amplitude_user_id"),
    ("device_id", "$amplitude_device_id"),
    ("device_id", "$device_id"),
    ("country", "$geoip_country_name"),
    ("city", "$geoip_city_name"),
    ("region", "$geoip_subdivision_1_name"),
];
/// Columns that other importers drop, and our names for them.
const CARRIED: [(&str, &str); 20] = [
    ("adid", "$amplitude_adid"),
    ("amplitude_id", "$amplitude_id"),
    ("device_brand", "$amplitude_device_brand"),
    ("device_carrier", "$amplitude_device_carrier"),
    ("device_family", "$amplitude_device_family"),
    ("device_manufacturer", "$device_manufacturer"),
    ("device_model", "$device_model"),
    ("dma", "$amplitude_dma"),
    ("idfa", "$amplitude_idfa"),
    ("ip_address", "$ip"),
    ("language", "$amplitude_language"),
    ("library", "$amplitude_library"),
    ("location_lat", "$geoip_latitude"),
    ("location_lng", "$geoip_longitude"),
    ("paying", "$amplitude_paying"),
    ("plan", "$amplitude_plan"),
    ("platform", "$amplitude_platform"),
    ("start_version", "$amplitude_start_version"),
    ("user_creation_time", "$amplitude_user_creation_time"),
    ("version_name", "$app_version"),
];
/// Properties of the event that are also written under our names.
const PAGE: [(&str, &str); 7] = [
    ("[Amplitude] Page URL", "$current_url"),
    ("[Amplitude] Page Domain", "$host"),
    ("[Amplitude] Page Path", "$pathname"),
    ("[Amplitude] Viewport Height", "$viewport_height"),
    ("[Amplitude] Viewport Width", "$viewport_width"),
    ("referrer", "$referrer"),
    ("referring_domain", "$referring_domain"),
];
/// Properties of the event that are also set on the person.
const PERSONS: [&str; 12] = [
    "$os",
    "$os_version",
    "$browser",
    "$device_type",
    "$current_url",
    "$pathname",
    "$browser_version",
    "$referrer",
    "$referring_domain",
    "$geoip_city_name",
    "$geoip_country_name",
    "$geoip_subdivision_1_name",
];
/// Fields of the time; the later ones are fallbacks.
const TIMES: [&str; 3] = ["event_time", "client_event_time", "server_received_time"];

/// Mapping of Amplitude's records.
pub(crate) struct Amplitude {
    times: Times,
    skips_without_distinct_id: bool,
    identifies: bool,
    groups: bool,
    generated: Generated,
}

impl Amplitude {
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            times: Times::new(options)?,
            skips_without_distinct_id: options.skip_without_distinct_id,
            identifies: options.identify,
            groups: options.groups,
            generated: Generated::new("amplitude"),
        })
    }

    /// Time of the event: the first that can be parsed.
    fn time(&self, record: &Object<'_>, events: &mut Events) -> Result<Micros, RecordError> {
        let mut refused = None;
        for (rank, field) in TIMES.into_iter().enumerate() {
            let Some(text) = record.text(field) else {
                continue;
            };
            match self.times.iso(field, &text) {
                Ok(at) => {
                    if rank > 0 {
                        events.note("time_of_another_field");
                    }
                    return Ok(at);
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| instant::missing("event_time")))
    }

    /// Generates the events for the persons and groups that the record names.
    fn generate(&mut self, record: &Object<'_>, at: Micros, events: &mut Events) {
        if self.identifies
            && let Some(user) = record.text("user_id")
        {
            let device = record.text("device_id");
            self.generated
                .identify(&user, device.as_deref(), at, events);
        }
        if !self.groups {
            return;
        }
        for (group_type, keys) in record.object("group_properties").iter() {
            for (group_key, properties) in json::object(keys).iter() {
                if !json::object(properties).is_empty() {
                    self.generated
                        .group((group_type, group_key), properties, at, events);
                }
            }
        }
    }
}

impl Mapping for Amplitude {
    fn map(&mut self, raw: &[u8], events: &mut Events) -> Result<(), RecordError> {
        let record: Object<'_> = json::read(raw)?;
        let Some(event_type) = record.text("event_type") else {
            events.note("skipped_without_event_type");
            return Ok(());
        };
        let at = self.time(&record, events)?;
        let Some(distinct_id) = distinct_id(&record, events) else {
            if self.skips_without_distinct_id {
                events.note("skipped_without_distinct_id");
                return Ok(());
            }
            return Err(RecordError::missing_distinct_id(
                "user_id, device_id, amplitude_id",
            ));
        };
        self.generate(&record, at, events);
        let name = new_name(&event_type, record.text("user_id").is_some());
        if name != event_type {
            events.note("renamed_event");
        }
        let mut event = events.begin(name, &distinct_id, at);
        identify(&mut event, &record, &event_type);
        let properties = properties(&record);
        properties.write(&mut event);
        write_person(&mut event, &record, &properties);
        write_groups(&mut event, &record);
        stamp(&mut event, "amplitude");
        event.end();
        Ok(())
    }
}

/// Id of the user or the device; without both, Amplitude's own number of the person.
fn distinct_id<'a>(record: &Object<'a>, events: &mut Events) -> Option<Cow<'a, str>> {
    let id = record.text("user_id").or_else(|| record.text("device_id"));
    if id.is_some() {
        return id;
    }
    let number = record.text("amplitude_id").filter(|number| number != "0")?;
    events.note("distinct_id_from_amplitude_id");
    Some(format!("amplitude:{number}").into())
}

/// Sets the event's uuid: Amplitude's, or one made of the insert id, which is unique for a device.
fn identify(event: &mut EventWriter<'_>, record: &Object<'_>, event_type: &str) {
    let own = record
        .text("uuid")
        .and_then(|text| Uuid::try_parse(&text).ok());
    if let Some(uuid) = own {
        event.uuid(uuid);
    } else if let Some(insert_id) = record.text("$insert_id") {
        let device_id = record.text("device_id").unwrap_or_default();
        let time = record.text("event_time").unwrap_or_default();
        let parts = [&*insert_id, &*device_id, event_type, &*time];
        event.key(&parts.map(str::as_bytes));
    }
}

fn new_name(event_type: &str, is_users: bool) -> &str {
    match event_type {
        // Without a user, Amplitude's `$identify` only sets properties of an anonymous person.
        "$identify" if !is_users => "$set",
        "[Amplitude] Page Viewed" => "$pageview",
        "[Amplitude] Element Clicked" | "[Amplitude] Element Changed" => "$autocapture",
        other => other,
    }
}

fn properties<'a>(record: &Object<'a>) -> PropertyMap<'a> {
    let mut map = PropertyMap::default();
    for (name, value) in record.object("event_properties").into_members() {
        map.put(name, PropertyValue::Raw(value));
    }
    for (column, name) in COLUMNS {
        map.put_raw(name, platform::filled(record, column));
    }
    for (column, name) in [
        ("event_id", "$amplitude_event_id"),
        ("session_id", "$amplitude_session_id"),
    ] {
        map.put_raw(name, record.get(column).filter(|value| value.get() != "0"));
    }
    platform::add(&mut map, record);
    for (theirs, ours) in PAGE {
        if let Some(value) = map.get(theirs).cloned() {
            map.put(ours, value);
        }
    }
    for (column, name) in CARRIED {
        if let Some(value) = platform::filled(record, column) {
            map.put_new(name, PropertyValue::Raw(value));
        }
    }
    map
}

/// Writes the person's properties: some of the event's, and all of the user's.
fn write_person(event: &mut EventWriter<'_>, record: &Object<'_>, properties: &PropertyMap<'_>) {
    let (mut set, mut set_once) = (PropertyMap::default(), PropertyMap::default());
    for name in PERSONS {
        if let Some(value) = properties.get(name) {
            set.put(name, value.clone());
        }
    }
    // Like the reference importer: the person's version stays a text.
    if platform::is_web(record) {
        set.put_raw("$browser_version", record.get("os_version"));
    }
    for (name, value) in record.object("user_properties").into_members() {
        match name.strip_prefix("initial_") {
            Some(_) if value.get() == "\"EMPTY\"" => {}
            Some(what) => set_once.put(format!("$initial_{what}"), PropertyValue::Raw(value)),
            None => set.put_new(name, PropertyValue::Raw(value)),
        }
    }
    set.write_set(event);
    set_once.write_set_once(event);
}

/// Writes the groups of the event; of several of a type the first.
fn write_groups(event: &mut EventWriter<'_>, record: &Object<'_>) {
    let mut groups = PropertyMap::default();
    for (group_type, keys) in record.object("groups").into_members() {
        let first = json::array(keys).into_iter().find_map(json::text);
        groups.put_text(group_type, first.or_else(|| json::text(keys)));
    }
    if !groups.is_empty() {
        event.property("$groups", &groups);
    }
}
