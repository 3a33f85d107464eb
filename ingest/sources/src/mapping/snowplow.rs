//! Mapping of Snowplow's enriched events: lines of 131 tab-separated columns, of which three are
//! JSON.

use super::generated::Generated;
use super::properties::{PropertyMap, PropertyValue};
use super::snowplow_columns::{COLUMNS, Kind, index_of};
use super::{Times, stamp};
use crate::json::{self, Object};
use crate::{Events, Mapping, Options, OptionsError, RecordError, countries, instant};
use millrace_rows::{Micros, counted};
use serde_json::value::RawValue;
use std::borrow::Cow;
use uuid::Uuid;

const EVENT: usize = index_of("event");
const EVENT_ID: usize = index_of("event_id");
const EVENT_NAME: usize = index_of("event_name");
const SE_ACTION: usize = index_of("se_action");
const USER_ID: usize = index_of("user_id");
const DOMAIN_USER_ID: usize = index_of("domain_userid");
const NETWORK_USER_ID: usize = index_of("network_userid");
const COUNTRY: usize = index_of("geo_country");
const UNSTRUCT: usize = index_of("unstruct_event");
/// Columns of the time, the best first: set by the application, corrected by Snowplow, the device's
/// clock, the collector's clock.
const TIMES: [usize; 4] = [
    index_of("true_tstamp"),
    index_of("derived_tstamp"),
    index_of("dvce_created_tstamp"),
    index_of("collector_tstamp"),
];

/// Mapping of Snowplow's lines.
pub(crate) struct Snowplow {
    times: Times,
    skips_without_distinct_id: bool,
    identifies: bool,
    generated: Generated,
}

impl Snowplow {
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            times: Times::new(options)?,
            skips_without_distinct_id: options.skip_without_distinct_id,
            identifies: options.identify,
            generated: Generated::new("snowplow"),
        })
    }

    fn time(&self, row: &Row<'_>, events: &mut Events) -> Result<Micros, RecordError> {
        for (rank, column) in TIMES.into_iter().enumerate() {
            if let Some(text) = row.get(column) {
                if rank > 1 {
                    events.note("time_of_another_field");
                }
                let field = COLUMNS.get(column).map_or("", |column| column.name);
                return self.times.iso(field, text);
            }
        }
        Err(instant::missing("derived_tstamp"))
    }
}

impl Mapping for Snowplow {
    fn map(&mut self, raw: &[u8], events: &mut Events) -> Result<(), RecordError> {
        let row = Row::read(raw)?;
        let name = row.event_name()?;
        let at = self.time(&row, events)?;
        let contexts = row.contexts()?;
        let unstruct = row.unstruct()?;
        let Some(distinct_id) = distinct_id(&row, &contexts) else {
            if self.skips_without_distinct_id {
                events.note("skipped_without_distinct_id");
                return Ok(());
            }
            return Err(RecordError::missing_distinct_id(
                "user_id, domain_userid, network_userid",
            ));
        };
        if self.identifies
            && let Some(user) = row.get(USER_ID)
        {
            let device = row.get(DOMAIN_USER_ID);
            self.generated.identify(user, device, at, events);
        }
        if name.starts_with('$') {
            events.note("renamed_event");
        }
        let mut event = events.begin(&name, &distinct_id, at);
        if let Some(id) = row.get(EVENT_ID) {
            match Uuid::try_parse(id) {
                Ok(uuid) => event.uuid(uuid),
                Err(_) => event.key(&[id.as_bytes()]),
            };
        }
        let screen_name = (name == "$screen").then(|| Row::screen_name(&unstruct, &contexts));
        let mut map = row.properties(unstruct);
        map.put_text("$screen_name", screen_name.flatten());
        for (name, parts) in &contexts {
            map.put_new(name.as_str(), PropertyValue::List(parts.clone()));
        }
        map.write(&mut event);
        stamp(&mut event, "snowplow");
        event.end();
        Ok(())
    }
}

/// Columns of a line.
struct Row<'a>(Vec<&'a str>);

/// Context entities of an event by the name of their schema.
type Contexts<'a> = Vec<(String, Vec<&'a RawValue>)>;

impl<'a> Row<'a> {
    fn read(raw: &'a [u8]) -> Result<Self, RecordError> {
        let text = json::utf8(raw)?;
        let fields: Vec<_> = text.split('\t').collect();
        if fields.len() != COLUMNS.len() {
            return Err(RecordError::new(
                "wrong_column_count",
                None,
                format!(
                    "The line has {} between tabs; Snowplow's enriched events have {}.",
                    counted(fields.len() as u64, "column"),
                    COLUMNS.len()
                ),
            ));
        }
        Ok(Self(fields))
    }

    fn get(&self, column: usize) -> Option<&'a str> {
        self.0
            .get(column)
            .copied()
            .filter(|field| !field.is_empty())
    }

    /// Name of the event: the application's own, or ours for the events that Snowplow defines.
    fn event_name(&self) -> Result<Cow<'a, str>, RecordError> {
        let name = match self.get(EVENT) {
            Some("page_view") => Some("$pageview"),
            // The name of a structured event is its action.
            Some("struct") => self.get(SE_ACTION).or(Some("struct")),
            kind => match self.get(EVENT_NAME).or(kind) {
                Some("screen_view") => Some("$screen"),
                Some("page_view") => Some("$pageview"),
                other => other,
            },
        };
        name.map(Cow::Borrowed)
            .ok_or_else(|| RecordError::missing_event("event_name"))
    }

    /// Reads the contexts, named as Snowplow's own loaders do: `contexts_com_acme_user_1`.
    fn contexts(&self) -> Result<Contexts<'a>, RecordError> {
        let mut found: Contexts<'a> = Vec::new();
        for (column, field) in COLUMNS.iter().zip(&self.0) {
            if column.kind != Kind::Contexts || field.is_empty() {
                continue;
            }
            let outer: Object<'a> =
                json::read(field.as_bytes()).map_err(|error| error.in_field(column.name))?;
            for part in outer.get("data").map(json::array).unwrap_or_default() {
                let part = json::object(part);
                let (Some(schema), Some(data)) = (part.text("schema"), part.get("data")) else {
                    continue;
                };
                let name = schema_name("contexts", &schema);
                match found.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, parts)) => parts.push(data),
                    None => found.push((name, vec![data])),
                }
            }
        }
        Ok(found)
    }

    /// Reads the fields of the application's own event.
    fn unstruct(&self) -> Result<Object<'a>, RecordError> {
        let Some(field) = self.get(UNSTRUCT) else {
            return Ok(Object::default());
        };
        let outer: Object<'a> =
            json::read(field.as_bytes()).map_err(|error| error.in_field("unstruct_event"))?;
        Ok(outer.object("data").object("data"))
    }

    fn properties(&self, unstruct: Object<'a>) -> PropertyMap<'a> {
        let mut map = PropertyMap::default();
        for (column, field) in COLUMNS.iter().zip(&self.0) {
            if field.is_empty() {
                continue;
            }
            let value = match column.kind {
                Kind::Text => PropertyValue::Text(Cow::Borrowed(*field)),
                Kind::Number if is_number(field) => PropertyValue::Number(Cow::Borrowed(*field)),
                Kind::Number => PropertyValue::Text(Cow::Borrowed(*field)),
                Kind::Flag => PropertyValue::Flag(matches!(*field, "1" | "true")),
                Kind::Contexts | Kind::Unstruct | Kind::Gone => continue,
            };
            map.push(column.ours, value);
        }
        let country = self.get(COUNTRY).and_then(countries::name);
        map.put_text("$geoip_country_name", country.map(Cow::Borrowed));
        for (name, value) in unstruct.into_members() {
            map.put_new(name, PropertyValue::Raw(value));
        }
        map
    }

    /// Name of the event's screen: its own field, or that of the screen context that trackers
    /// attach (schemas `screen_view` and `screen` of com.snowplowanalytics.mobile).
    fn screen_name(unstruct: &Object<'a>, contexts: &Contexts<'a>) -> Option<Cow<'a, str>> {
        let attached = || {
            let screens = contexts.iter().find(|(name, _)| {
                name.starts_with("contexts_com_snowplowanalytics_mobile_screen_")
            });
            let mut names = screens?
                .1
                .iter()
                .map(|data| json::object(data).text("name"));
            names.find_map(|name| name)
        };
        unstruct.text("name").or_else(attached)
    }
}

/// Distinct id of an event: the user's, or the browser's; of a mobile application the
/// installation's, which is in the session context.
fn distinct_id<'a>(row: &Row<'a>, contexts: &Contexts<'a>) -> Option<Cow<'a, str>> {
    let id = row.get(USER_ID).or_else(|| row.get(DOMAIN_USER_ID));
    let of_session = || {
        let session = contexts
            .iter()
            .find(|(name, _)| name.contains("_client_session_"));
        session?
            .1
            .iter()
            .find_map(|data| json::object(data).text("userId"))
    };
    id.map(Cow::Borrowed)
        .or_else(of_session)
        .or_else(|| row.get(NETWORK_USER_ID).map(Cow::Borrowed))
}

fn is_number(field: &str) -> bool {
    serde_json::from_str::<&RawValue>(field).is_ok()
        && matches!(field.as_bytes().first(), Some(b'-' | b'0'..=b'9'))
}

/// Column name of a schema: `iglu:com.acme/linkClick/jsonschema/1-0-2` gives
/// `<prefix>_com_acme_link_click_1`.
fn schema_name(prefix: &str, schema: &str) -> String {
    let mut parts = schema.trim_start_matches("iglu:").split('/');
    let (vendor, name) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let version = parts
        .nth(1)
        .and_then(|version| version.split('-').next())
        .unwrap_or_default();
    let mut found = prefix.to_owned();
    for part in [vendor, name, version] {
        found.push('_');
        let mut was_lower = false;
        for letter in part.chars() {
            if letter.is_uppercase() && was_lower {
                found.push('_');
            }
            was_lower = letter.is_lowercase() || letter.is_ascii_digit();
            found.extend(letter.to_lowercase().map(|letter| match letter {
                '.' | '-' => '_',
                other => other,
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_named_like_columns() {
        let table = [
            (
                "iglu:com.acme/link_click/jsonschema/1-0-2",
                "contexts_com_acme_link_click_1",
            ),
            (
                "iglu:org.w3/PerformanceTiming/jsonschema/2-0-0",
                "contexts_org_w3_performance_timing_2",
            ),
            (
                "iglu:com.acme-corp/aB1C/jsonschema/10-0-0",
                "contexts_com_acme_corp_a_b1_c_10",
            ),
            ("x", "contexts_x__"),
        ];
        for (schema, name) in table {
            assert_eq!(schema_name("contexts", schema), name);
        }
    }
}
