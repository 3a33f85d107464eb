//! Mapping of Segment's and RudderStack's archives: the calls of their libraries, one in each line.

use super::properties::{PropertyMap, PropertyValue};
use super::{Times, stamp};
use crate::json::{self, Object};
use crate::{EventWriter, Events, Mapping, Options, OptionsError, RecordError, instant};
use millrace_rows::Micros;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Fields of the context that libraries send: group, field, and our name.
const CONTEXT: [(&str, &str, &str); 34] = [
    ("app", "build", "$app_build"),
    ("app", "name", "$app_name"),
    ("app", "namespace", "$app_namespace"),
    ("app", "version", "$app_version"),
    ("campaign", "content", "utm_content"),
    ("campaign", "medium", "utm_medium"),
    ("campaign", "name", "utm_campaign"),
    ("campaign", "source", "utm_source"),
    ("campaign", "term", "utm_term"),
    ("device", "id", "$device_id"),
    ("device", "manufacturer", "$device_manufacturer"),
    ("device", "model", "$device_model"),
    ("device", "name", "$device_name"),
    ("device", "type", "$device_type"),
    ("library", "name", "$lib"),
    ("library", "version", "$lib_version"),
    ("location", "city", "$geoip_city_name"),
    ("location", "country", "$geoip_country_name"),
    ("location", "latitude", "$geoip_latitude"),
    ("location", "longitude", "$geoip_longitude"),
    ("location", "region", "$geoip_subdivision_1_name"),
    ("network", "bluetooth", "$network_bluetooth"),
    ("network", "carrier", "$network_carrier"),
    ("network", "cellular", "$network_cellular"),
    ("network", "wifi", "$network_wifi"),
    ("os", "name", "$os"),
    ("os", "version", "$os_version"),
    ("page", "path", "$pathname"),
    ("page", "referrer", "$referrer"),
    ("page", "title", "title"),
    ("page", "url", "$current_url"),
    ("screen", "density", "$screen_density"),
    ("screen", "height", "$screen_height"),
    ("screen", "width", "$screen_width"),
];
/// Fields of the context that are in no group, and our names for them.
const CONTEXT_SINGLE: [(&str, &str); 4] = [
    ("ip", "$ip"),
    ("locale", "$locale"),
    ("timezone", "$timezone"),
    ("userAgent", "$raw_user_agent"),
];
/// Properties of `page` calls and our names for them.
const PAGE: [(&str, &str); 3] = [
    ("path", "$pathname"),
    ("referrer", "$referrer"),
    ("url", "$current_url"),
];

/// Mapping of Segment's and RudderStack's records.
pub(crate) struct Segment {
    source: &'static str,
    times: Times,
    skips_without_distinct_id: bool,
    group_type: String,
}

impl Segment {
    /// Creates the mapping for archives of `source`.
    pub(crate) fn new(source: &'static str, options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            source,
            times: Times::new(options)?,
            skips_without_distinct_id: options.skip_without_distinct_id,
            group_type: options.group_type.clone(),
        })
    }

    /// Time of the call: corrected by the tool, or by us with the skew of the client's clock when
    /// it sent the call. The times for the skew may be missing or unreadable.
    fn time(&self, record: &Object<'_>, events: &mut Events) -> Result<Micros, RecordError> {
        if let Some(text) = record.text("timestamp") {
            return self.times.either("timestamp", &text);
        }
        let read = |field| {
            let text = record.text(field);
            text.map(|text| self.times.either(field, &text)).transpose()
        };
        let at = match read("originalTimestamp")? {
            Some(original) => {
                let clocks = [read("sentAt"), read("receivedAt")];
                Some(corrected(original, clocks.map(|it| it.ok().flatten())))
            }
            None => read("receivedAt")?,
        };
        let at = at.ok_or_else(|| instant::missing("timestamp"))?;
        events.note("time_of_another_field");
        Ok(at)
    }

    /// Type of the group that a call or its context names.
    fn group_type<'a>(&'a self, traits: &Object<'a>) -> Cow<'a, str> {
        let named = traits
            .text("groupType")
            .or_else(|| traits.text("group_type"));
        named.unwrap_or(Cow::Borrowed(&self.group_type))
    }
}

/// Corrects a time of the client's clock by the time at which it sent the call and the time at
/// which the call arrived.
fn corrected(original: Micros, [sent, received]: [Option<Micros>; 2]) -> Micros {
    let (Some(sent), Some(received)) = (sent, received) else {
        return original;
    };
    let at = original.plus_micros(received.0 - sent.0);
    instant::in_range(at.0).unwrap_or(original)
}

/// Fields that all kinds of calls have.
struct SegmentCall<'a> {
    record: Object<'a>,
    context: Object<'a>,
    properties: Object<'a>,
    traits: Object<'a>,
    user: Option<Cow<'a, str>>,
    anonymous: Option<Cow<'a, str>>,
}

impl Mapping for Segment {
    fn map(&mut self, raw: &[u8], events: &mut Events) -> Result<(), RecordError> {
        let record: Object<'_> = json::read(raw)?;
        let call = SegmentCall {
            context: record.object("context"),
            properties: record.object("properties"),
            traits: record.object("traits"),
            user: record.text("userId"),
            anonymous: record.text("anonymousId"),
            record,
        };
        let kind = call.record.text("type").unwrap_or_default();
        // RudderStack's libraries differ in the use of capitals.
        let kind = kind.to_ascii_lowercase();
        let name = call.event_name(&kind)?;
        let at = self.time(&call.record, events)?;
        let Some(distinct_id) = call.user.as_ref().or(call.anonymous.as_ref()) else {
            if self.skips_without_distinct_id {
                events.note("skipped_without_distinct_id");
                return Ok(());
            }
            return Err(RecordError::missing_distinct_id("userId, anonymousId"));
        };
        let map = self.properties(&kind, &call)?;
        if kind != "track" {
            events.note("renamed_event");
        }
        let mut event = events.begin(&name, distinct_id, at);
        if let Some(message_id) = call.record.text("messageId") {
            event.key(&[kind.as_bytes(), message_id.as_bytes()]);
        }
        map.write(&mut event);
        call.write_person(&kind, &mut event);
        self.write_groups(&kind, &call, &mut event);
        stamp(&mut event, self.source);
        event.end();
        Ok(())
    }
}

impl Segment {
    /// Collects the event's properties.
    fn properties<'a>(
        &'a self,
        kind: &str,
        call: &SegmentCall<'a>,
    ) -> Result<PropertyMap<'a>, RecordError> {
        let mut map = PropertyMap::default();
        match kind {
            "identify" if call.user.is_some() => {
                let anonymous = call.anonymous.clone();
                let other = anonymous.filter(|anonymous| Some(anonymous) != call.user.as_ref());
                map.put_text("$anon_distinct_id", other);
            }
            "alias" => {
                let previous = call
                    .record
                    .text("previousId")
                    .or_else(|| call.anonymous.clone());
                let previous = previous.ok_or_else(|| missing("previousId"))?;
                map.put_text("alias", Some(previous));
            }
            "group" => {
                let key = call
                    .record
                    .text("groupId")
                    .ok_or_else(|| missing("groupId"))?;
                map.put_text("$group_type", Some(self.group_type(&call.traits)));
                map.put_text("$group_key", Some(key));
                map.put_raw("$group_set", call.record.get("traits"));
            }
            _ => {}
        }
        let is_page = kind == "page";
        for (name, value) in call.record.object("properties").into_members() {
            let ours = PAGE.iter().find(|(theirs, _)| is_page && *theirs == name);
            match ours {
                Some((_, ours)) if call.properties.has(ours) => {}
                Some((_, ours)) => map.put(*ours, PropertyValue::Raw(value)),
                None => map.put(name, PropertyValue::Raw(value)),
            }
        }
        if matches!(kind, "page" | "screen") {
            let name = call.record.get("name");
            if kind == "screen" {
                call.add_screen_name(&mut map, name);
            } else {
                map.put_raw("name", name);
            }
            map.put_raw("category", call.record.get("category"));
        }
        call.add_context(&mut map);
        Ok(map)
    }

    /// Writes `$groups` of the call, or of its context.
    fn write_groups(&self, kind: &str, call: &SegmentCall<'_>, event: &mut EventWriter<'_>) {
        let key = match kind {
            "group" => call.record.text("groupId"),
            _ => call.context.text("groupId"),
        };
        if let Some(key) = key {
            let no_traits = Object::default();
            let traits = if kind == "group" {
                &call.traits
            } else {
                &no_traits
            };
            event.property(
                "$groups",
                &super::Members(&[(self.group_type(traits), key)]),
            );
        }
    }
}

impl<'a> SegmentCall<'a> {
    /// Our name for the event.
    fn event_name(&self, kind: &str) -> Result<Cow<'a, str>, RecordError> {
        Ok(Cow::Borrowed(match kind {
            "track" => {
                let name = self.record.text("event");
                return name.ok_or_else(|| RecordError::missing_event("event"));
            }
            "page" => "$pageview",
            "screen" => "$screen",
            "identify" if self.user.is_some() => "$identify",
            // Without a user, the call only sets properties of an anonymous person.
            "identify" => "$set",
            "group" => "$groupidentify",
            "alias" => "$create_alias",
            _ => {
                return Err(RecordError::new(
                    "invalid_record",
                    Some("type"),
                    "`type` is none of track, page, screen, identify, group and alias.",
                ));
            }
        }))
    }

    /// Adds the name of a screen. Segment's specification has it in `name`; RudderStack's mobile
    /// libraries put it into `event`, and both may have it among the properties.
    fn add_screen_name(&self, map: &mut PropertyMap<'a>, name: Option<&'a RawValue>) {
        map.put_raw("$screen_name", name);
        for other in [self.record.get("event"), self.properties.get("name")] {
            if let Some(other) = other.filter(|other| json::text(other).is_some()) {
                map.put_new("$screen_name", PropertyValue::Raw(other));
            }
        }
    }

    /// Adds the context, unless the call's properties have the same names.
    fn add_context(&self, map: &mut PropertyMap<'a>) {
        let mut group = ("", Object::default());
        for (theirs, field, ours) in CONTEXT {
            if group.0 != theirs {
                group = (theirs, self.context.object(theirs));
            }
            add(map, ours, &group.1, field);
        }
        for (field, ours) in CONTEXT_SINGLE {
            add(map, ours, &self.context, field);
        }
        add(map, "$ip", &self.record, "request_ip");
        if self.user.is_some()
            && let Some(anonymous) = &self.anonymous
        {
            map.put_new("$device_id", PropertyValue::Text(anonymous.clone()));
        }
    }

    /// Writes the person's properties: the traits of `identify`, and those in the context.
    fn write_person(&self, kind: &str, event: &mut EventWriter<'_>) {
        let mut set = PropertyMap::default();
        if kind == "identify" {
            for (name, value) in self.record.object("traits").into_members() {
                set.put(name, PropertyValue::Raw(value));
            }
        }
        for (name, value) in self.context.object("traits").into_members() {
            set.put_new(name, PropertyValue::Raw(value));
        }
        set.write_set(event);
    }
}

fn add<'a>(map: &mut PropertyMap<'a>, ours: &'static str, from: &Object<'a>, field: &str) {
    if let Some(value) = from.get(field).filter(|value| value.get() != "\"\"") {
        map.put_new(ours, PropertyValue::Raw(value));
    }
}

fn missing(field: &'static str) -> RecordError {
    RecordError::new(
        "invalid_record",
        Some(field),
        format!("The call has no `{field}`, which it needs."),
    )
}
