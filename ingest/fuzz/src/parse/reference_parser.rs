//! Reference parser: a second, plain implementation of the contract, from a JSON body to rows.

use super::json::{Kind, Members, kind, text};
use super::rows::{self, Rejected};
use crate::timestamp::reference;
use millrace_parse::{ParseContext, Parsed, Protocol};
use millrace_rows::testing::Event;
use millrace_rows::{Micros, Month, ProjectId};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Time at which bodies arrive: 2026-11-20T15:38:18.100Z.
pub(super) const NOW: Micros = Micros(1_795_189_098_100_000);
/// Project that bodies are for.
pub(super) const PROJECT: ProjectId = ProjectId(42);
const HOUR: i64 = 3_600_000_000;
/// Most characters of names and ids.
const NAME_CHARS_MAX: usize = 200;

/// Request as the reference parser reads it.
struct Request<'a> {
    events: Vec<&'a RawValue>,
    is_single: bool,
    is_v1: bool,
    historical: bool,
    shift: i64,
    context: &'a ParseContext<'a>,
}

/// Asserts that the parsed rows equal the reference parser's.
pub fn check(body: &str, context: &ParseContext<'_>, parsed: &Parsed) {
    let request = Request::read(body, context).expect("refused by the reference parser");
    let mut stored = Vec::new();
    let mut refused = Vec::new();
    for (event, index) in request.events.iter().zip(0..) {
        match request.event(event) {
            Ok(event) => stored.push(event),
            Err(code) => refused.push(Rejected {
                index,
                code: code.to_owned(),
                raw: event.get().to_owned(),
            }),
        }
    }
    assert_eq!(rows::rejected(&parsed.batch), refused);
    assert_eq!(parsed.report.rejected_count as usize, refused.len());
    assert_eq!(parsed.accepted as usize, stored.len());
    let found = rows::events(&parsed.batch);
    let expected = by_month(stored);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        expected.assert_is(found, request.is_v1);
    }
}

/// Asserts that a refusal has the error code of the reference parser.
pub fn check_refusal(body: &str, context: &ParseContext<'_>, code: &str) {
    match Request::read(body, context) {
        Err(expected) => assert_eq!(code, expected),
        // The reference parser does not check keys, nor the uuids of v1.
        Ok(request) => assert!(
            code.ends_with("api_key") || code.ends_with("api_keys") || request.is_v1,
            "{code}"
        ),
    }
}

/// Groups the rows by month, as the parser does.
fn by_month(stored: Vec<Expected>) -> Vec<Expected> {
    let month = |event: &Expected| Month::of(event.row.timestamp);
    let mut months = Vec::new();
    for event in &stored {
        if !months.contains(&month(event)) {
            months.push(month(event));
        }
    }
    let mut stored = stored;
    stored.sort_by_key(|event| months.iter().position(|known| *known == month(event)));
    stored
}

struct Expected {
    row: Event,
    /// Version of the uuid that we generate; `None` if the client sent one.
    version: Option<usize>,
    /// The properties' text after the opening brace.
    rest: String,
}

impl Expected {
    fn assert_is(&self, found: &Event, is_v1: bool) {
        let mut found = found.clone();
        if let Some(version) = self.version {
            assert_eq!(found.uuid.get_version_num(), version);
            found.uuid = self.row.uuid;
        }
        if is_v1 {
            // Properties that v1 adds are not modelled: the result is JSON that ends with the
            // text sent.
            let properties: Result<&RawValue, _> = serde_json::from_str(&found.properties);
            assert!(properties.is_ok() && found.properties.ends_with(&self.rest));
            found.properties.clone_from(&self.row.properties);
        }
        assert_eq!(found, self.row);
    }
}

impl<'a> Request<'a> {
    fn read(body: &'a str, context: &'a ParseContext<'a>) -> Result<Self, &'static str> {
        let whole: &RawValue = serde_json::from_str(body).expect("known to be JSON");
        let is_v1 = matches!(context.protocol, Protocol::V1 { .. });
        let root = Members::of(Some(whole));
        let list = match (kind(whole), root.last("batch")) {
            (Kind::Array, _) if !is_v1 => Some(whole),
            (Kind::Object, Some(batch)) if kind(batch) == Kind::Array => Some(batch),
            (Kind::Object, None) if !is_v1 => None,
            _ => return Err("invalid_body"),
        };
        let events = match list {
            Some(list) => serde_json::from_str(list.get()).expect("an array"),
            None => vec![whole],
        };
        if events.is_empty() {
            return Err("empty_batch");
        }
        if events.len() > context.limits.events_max {
            return Err("too_many_events");
        }
        if events.len() > (body.len() / 24).max(1_000) {
            return Err("body_too_complex");
        }
        let historical = match root.given("historical_migration").map(kind) {
            None | Some(Kind::False) => context.historical_query,
            Some(Kind::True) => true,
            Some(_) => return Err("invalid_historical_migration"),
        };
        let shift = if is_v1 { 0 } else { shift(&root, context) };
        Ok(Self {
            is_single: list.is_none(),
            events,
            is_v1,
            historical,
            shift,
            context,
        })
    }

    fn event(&self, whole: &'a RawValue) -> Result<Expected, &'static str> {
        let quotes = if kind(whole) == Kind::String { 2 } else { 0 };
        if whole.get().len() - quotes > self.context.limits.event_bytes_max {
            return Err("event_too_large");
        }
        if kind(whole) != Kind::Object {
            return Err("invalid_event");
        }
        let event = Members::of(Some(whole));
        if !self.is_single && event.given("historical_migration").is_some() {
            return Err("invalid_historical_migration");
        }
        let sent = event.last("properties");
        let properties = Members::of(sent);
        let name = self.name(&event)?;
        let distinct_id = distinct_id(&event, &properties)?;
        let (timestamp, said) = self.timestamp(&event, &properties)?;
        let uuid = uuid(&event)?;
        check_objects(&event)?;
        let version = match uuid {
            Some(_) => None,
            None if self.historical && said => Some(5),
            None => Some(7),
        };
        let raw = sent.filter(|value| kind(value) == Kind::Object);
        let raw = raw.map_or("{}", RawValue::get);
        Ok(Expected {
            row: Event {
                uuid: uuid.unwrap_or_default(),
                event: name,
                properties: self.stored(&event, &properties, raw),
                timestamp,
                team_id: PROJECT.0,
                distinct_id,
                created_at: NOW,
                historical_migration: self.historical,
            },
            version,
            rest: raw[1..].to_owned(),
        })
    }

    fn name(&self, event: &Members<'_>) -> Result<String, &'static str> {
        let is_identify = self.context.engage && self.is_single;
        if is_identify && event.given("event").is_none() {
            return Ok("$identify".to_owned());
        }
        name(event.given("event")).map_err(|problem| match problem {
            NameError::Missing => "missing_event",
            NameError::Invalid => "invalid_event",
            NameError::TooLong => "event_name_too_long",
        })
    }

    fn timestamp(
        &self,
        event: &Members<'_>,
        properties: &Members<'_>,
    ) -> Result<(Micros, bool), &'static str> {
        const INVALID: &str = "invalid_timestamp";
        let given = event.given("timestamp");
        let written = match given {
            None => String::new(),
            Some(value) if kind(value) == Kind::String => text(value).ok_or(INVALID)?,
            Some(_) => return Err(INVALID),
        };
        let written = trim_ascii(&written);
        if written.is_empty() {
            return Ok((before(event.given("offset")), false));
        }
        let mut at = reference(written).ok_or(INVALID)?;
        let ignores = properties.last("$ignore_sent_at").map(kind) == Some(Kind::True);
        if !self.historical && !ignores {
            at = (at + self.shift).max(0);
        }
        match (at <= NOW.0 + 23 * HOUR, self.historical) {
            (true, _) => Ok((Micros(at), true)),
            (false, true) => Err("timestamp_in_future"),
            (false, false) => Ok((NOW, true)),
        }
    }

    /// The properties, preceded by the members that the contract moves into them.
    fn stored(&self, event: &Members<'_>, properties: &Members<'_>, raw: &str) -> String {
        let mut added = String::new();
        let keeps_ip = properties.last("$geoip_disable").map(kind) == Some(Kind::True)
            || properties.last("$ip").is_some();
        if let Some(ip) = self
            .context
            .client_ip
            .filter(|_| !self.historical && !keeps_ip)
        {
            added += &format!("\"$ip\":\"{ip}\",");
        }
        for name in ["$set", "$set_once", "$unset", "$groups"] {
            if let Some(value) = event.given(name)
                && properties.last(name).is_none()
            {
                added += &format!("\"{name}\":{},", value.get());
            }
        }
        if properties.is_empty() {
            added.pop();
        }
        format!("{{{added}{}", &raw[1..])
    }
}

/// Microseconds by which the client's clock is behind; 0 if it is at most a minute.
fn shift(root: &Members<'_>, context: &ParseContext<'_>) -> i64 {
    let named = |name: &str| {
        let value = root
            .last(name)
            .filter(|value| kind(value) == Kind::String)?;
        reference(text(value)?.trim())
    };
    let query = || Some(context.sent_at_query?.parse::<i64>().ok()? * 1_000);
    let sent_at = named("sent_at").or_else(|| named("sentAt")).or_else(query);
    match sent_at.map(|sent_at| NOW.0 - sent_at) {
        Some(off) if off.abs() > 60_000_000 => off,
        _ => 0,
    }
}

/// Time of receipt less an offset in milliseconds, if that is plausible.
fn before(offset: Option<&RawValue>) -> Micros {
    let millis = offset
        .filter(|value| kind(value) == Kind::Number)
        .and_then(|value| value.get().parse::<i64>().ok());
    match millis.map(|millis| i128::from(NOW.0) - i128::from(millis) * 1_000) {
        Some(at) if (0..=i128::from(NOW.0)).contains(&at) => Micros(at as i64),
        _ => NOW,
    }
}

enum NameError {
    Missing,
    Invalid,
    TooLong,
}

fn name(value: Option<&RawValue>) -> Result<String, NameError> {
    let value = value.ok_or(NameError::Missing)?;
    let text = match kind(value) {
        Kind::String => text(value).ok_or(NameError::Invalid)?,
        _ => return Err(NameError::Invalid),
    };
    match text.trim() {
        "" => Err(NameError::Missing),
        name if name.contains('\0') => Err(NameError::Invalid),
        name if name.chars().count() > NAME_CHARS_MAX => Err(NameError::TooLong),
        name => Ok(name.to_owned()),
    }
}

fn distinct_id(event: &Members<'_>, properties: &Members<'_>) -> Result<String, &'static str> {
    let found = event
        .given("distinct_id")
        .or_else(|| event.given("$distinct_id"))
        .or_else(|| properties.given("distinct_id"))
        .or_else(|| properties.given("$distinct_id"));
    let result = match found {
        Some(value) if kind(value) == Kind::Number => match value.get() {
            digits if digits.len() > NAME_CHARS_MAX => Err(NameError::TooLong),
            digits => Ok(digits.to_owned()),
        },
        found => name(found),
    };
    result.map_err(|problem| match problem {
        NameError::Missing => "missing_distinct_id",
        NameError::Invalid => "invalid_distinct_id",
        NameError::TooLong => "distinct_id_too_long",
    })
}

fn uuid(event: &Members<'_>) -> Result<Option<Uuid>, &'static str> {
    const INVALID: &str = "invalid_uuid";
    let Some(value) = event.given("uuid") else {
        return Ok(None);
    };
    let written = match kind(value) {
        Kind::String => text(value).ok_or(INVALID)?,
        _ => return Err(INVALID),
    };
    match trim_ascii(&written) {
        "" => Ok(None),
        written => parse_uuid(written).map(Some).ok_or(INVALID),
    }
}

/// Parses a uuid: 32 hexadecimal digits, with or without hyphens in the usual places, in braces or
/// after `urn:uuid:`.
fn parse_uuid(text: &str) -> Option<Uuid> {
    let in_braces = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let prefixed = text
        .split_at_checked(9)
        .filter(|(prefix, _)| prefix.eq_ignore_ascii_case("urn:uuid:"))
        .map(|(_, rest)| rest);
    let inner = in_braces.or(prefixed).unwrap_or(text);
    let bytes = inner.as_bytes();
    let has_hyphens = bytes.len() == 36 && [8, 13, 18, 23].iter().all(|at| bytes[*at] == b'-');
    let digits: String = inner
        .chars()
        .filter(|c| !has_hyphens || *c != '-')
        .collect();
    let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| Uuid::from_u128(u128::from_str_radix(&digits, 16).unwrap()))
}

fn check_objects(event: &Members<'_>) -> Result<(), &'static str> {
    const INVALID: &str = "invalid_properties";
    for name in ["properties", "$set", "$set_once", "$groups"] {
        if event
            .given(name)
            .is_some_and(|value| kind(value) != Kind::Object)
        {
            return Err(INVALID);
        }
    }
    let unset = event.given("$unset");
    let is_valid = unset.is_none_or(|value| match kind(value) {
        Kind::Object => true,
        Kind::Array => {
            let list: Vec<&RawValue> = serde_json::from_str(value.get()).expect("an array");
            list.iter().all(|value| kind(value) == Kind::String)
        }
        _ => false,
    });
    if is_valid { Ok(()) } else { Err(INVALID) }
}

fn trim_ascii(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace())
}
