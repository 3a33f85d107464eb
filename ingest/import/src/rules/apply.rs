//! Applies the rules to one event.

use super::cast::cast;
use super::object::Object;
use super::{OutOfBounds, Rules, is_one_of};
use millrace_rows::Micros;
use millrace_sources::RecordError;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An event after the rules.
#[derive(Debug, PartialEq, Eq)]
pub struct Applied {
    /// New JSON; `None` when a rule drops the event.
    pub json: Option<String>,
    /// New name.
    pub name: String,
    /// New time.
    pub timestamp: Micros,
}

/// Applies rules and counts them.
#[derive(Debug)]
pub struct Applier<'a> {
    rules: &'a Rules,
    /// Number of changes by each rule, such as `rename event Sign Up`.
    pub counts: BTreeMap<String, u64>,
}

impl<'a> Applier<'a> {
    /// Creates an applier of the given rules.
    #[must_use]
    pub fn new(rules: &'a Rules) -> Self {
        Self {
            rules,
            counts: BTreeMap::new(),
        }
    }

    fn count(&mut self, rule: &str, of: &str) {
        *self.counts.entry(format!("{rule} {of}")).or_default() += 1;
    }

    /// Applies the rules to an event.
    ///
    /// # Errors
    /// The event is not JSON, a value cannot be cast, or the time is out of bounds.
    pub fn apply(&mut self, json: &[u8], timestamp: Micros) -> Result<Applied, RecordError> {
        let text = std::str::from_utf8(json).map_err(|_| {
            broken(
                "invalid_utf8",
                None,
                "The event is not UTF-8. Correct or omit it.",
            )
        })?;
        let mut event = Object::read(text).ok_or_else(|| {
            broken(
                "invalid_json",
                None,
                "The event is not JSON. Correct or omit it.",
            )
        })?;
        let old: Option<String> = event
            .get("event")
            .and_then(|name| serde_json::from_str(name).ok());
        let old = old.map(|name| name.trim().to_owned()).unwrap_or_default();
        let Some(name) = self.name(&old) else {
            return Ok(dropped(old, timestamp));
        };
        if name != old {
            event.set(
                "event".into(),
                Value::from(name.as_str()).to_string().into(),
            );
        }
        let Some(at) = self.time(timestamp)? else {
            return Ok(dropped(name, timestamp));
        };
        if at != timestamp {
            let mut text = vec![b'"'];
            millrace_sources::time::write(&mut text, at);
            text.push(b'"');
            event.set(
                "timestamp".into(),
                String::from_utf8_lossy(&text).into_owned().into(),
            );
        }
        let properties = event.get("properties").unwrap_or("{}").to_owned();
        // The server refuses properties that are no object, with a better message.
        if let Some(mut properties) = Object::read(&properties) {
            self.properties(&mut properties)?;
            self.persons(&mut properties);
            event.set("properties".into(), properties.write().into());
        }
        Ok(Applied {
            json: Some(event.write()),
            name,
            timestamp: at,
        })
    }

    /// New name of an event; `None` when a rule drops it.
    fn name(&mut self, old: &str) -> Option<String> {
        let rules = &self.rules.events;
        if (!rules.keep.is_empty() && !is_one_of(old, &rules.keep)) || is_one_of(old, &rules.drop) {
            self.count("drop event", old);
            return None;
        }
        match rules.rename.get(old) {
            Some(new) => {
                self.count("rename event", old);
                Some(new.clone())
            }
            None => Some(old.to_owned()),
        }
    }

    /// New time of an event; `None` when a rule drops it.
    fn time(&mut self, at: Micros) -> Result<Option<Micros>, RecordError> {
        let rules = &self.rules.time;
        let bound = match (rules.earliest, rules.latest) {
            (Some(earliest), _) if at < earliest => earliest,
            (_, Some(latest)) if at > latest => latest,
            _ => return Ok(Some(at)),
        };
        match rules.outside {
            OutOfBounds::Clamp => {
                self.count("clamp", "time");
                Ok(Some(bound))
            }
            OutOfBounds::Drop => {
                self.count("drop", "time out of bounds");
                Ok(None)
            }
            OutOfBounds::Reject => Err(broken(
                "time_out_of_bounds",
                Some("timestamp"),
                "The time is out of the mapping's bounds. Change `time.earliest`, `time.latest` or `time.outside`.",
            )),
        }
    }

    fn properties(&mut self, properties: &mut Object<'_>) -> Result<(), RecordError> {
        let rules = &self.rules.properties;
        if !rules.drop.is_empty() {
            let dropped = properties.retain(|name| !is_one_of(name, &rules.drop));
            if dropped > 0 {
                *self.counts.entry("drop property".to_owned()).or_default() += dropped as u64;
            }
        }
        for (old, new) in &rules.rename {
            if let Some(value) = properties.take(old) {
                let value = Cow::Owned(value.into_owned());
                properties.set(Cow::Owned(new.clone()), value);
                self.count("rename property", old);
            }
        }
        for (name, to) in &rules.cast {
            let Some(value) = properties.get(name) else {
                continue;
            };
            let Some(new) = cast(value, *to) else {
                let message = format!(
                    "The property {name} is not of type {}. Remove its cast, or correct it.",
                    format!("{to:?}").to_lowercase()
                );
                return Err(broken("cannot_cast", Some(name), &message));
            };
            if new != value {
                properties.set(Cow::Owned(name.clone()), Cow::Owned(new));
                self.count("cast property", name);
            }
        }
        for (name, value) in &rules.set {
            let value = Cow::Owned(value.to_string());
            properties.set(Cow::Owned(name.clone()), value);
            self.count("set property", name);
        }
        Ok(())
    }

    fn persons(&mut self, properties: &mut Object<'_>) {
        let rules = &self.rules.persons;
        for (into, list) in [("$set", &rules.set), ("$set_once", &rules.set_once)] {
            let found: Vec<_> = list
                .iter()
                .filter_map(|(person, event)| Some((person, properties.get(event)?.to_owned())))
                .collect();
            if found.is_empty() {
                continue;
            }
            let old = properties.get(into).unwrap_or("{}").to_owned();
            let mut set = Object::read(&old).unwrap_or_default();
            for (person, value) in found {
                self.count(into, person);
                set.set(Cow::Borrowed(person), Cow::Owned(value));
            }
            properties.set(Cow::Borrowed(into), Cow::Owned(set.write()));
        }
    }
}

fn dropped(name: String, timestamp: Micros) -> Applied {
    Applied {
        json: None,
        name,
        timestamp,
    }
}

fn broken(code: &'static str, field: Option<&str>, message: &str) -> RecordError {
    RecordError {
        code,
        field: field.map(|field| Cow::Owned(field.to_owned())),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [events]
        drop = ["debug*"]
        rename = { "Sign Up" = "signed_up" }
        [properties]
        drop = ["secret_*"]
        rename = { "$city" = "city" }
        cast = { price = "number" }
        set = { imported_from = "mixpanel" }
        [persons]
        set = { email = "mail" }
        set_once = { first_city = "city" }
        [time]
        earliest = 2020-01-01T00:00:00Z
        latest = "2025-01-01"
        outside = "clamp"
    "#;

    fn at(text: &str) -> Micros {
        millrace_parse::parse_timestamp(text.as_bytes()).unwrap()
    }

    fn applied(json: &str, timestamp: &str) -> Result<Applied, RecordError> {
        let rules: Rules = toml::from_str(RULES).unwrap();
        let mut applier = Applier::new(&rules);
        applier.apply(json.as_bytes(), at(timestamp))
    }

    #[test]
    fn all_rules_apply_and_other_members_stay_unchanged() {
        let event = r#"{"event":" Sign Up","timestamp":"2024-05-01","distinct_id":"a","properties":{
            "n":1e400,"secret_x":1,"$city":"Graz","price":"7.50","mail":"a@b","$set":{"x":[1, 2]}}}"#;
        let applied = applied(event, "2024-05-01").unwrap();
        assert_eq!(applied.name, "signed_up");
        let expected = r#"{"event":"signed_up","timestamp":"2024-05-01","distinct_id":"a","properties":{"n":1e400,"price":7.50,"mail":"a@b","$set":{"x":[1, 2],"email":"a@b"},"city":"Graz","imported_from":"mixpanel","$set_once":{"first_city":"Graz"}}}"#;
        assert_eq!(applied.json.unwrap(), expected);
    }

    #[test]
    fn events_are_dropped_by_name_and_times_are_clamped() {
        let dropped = applied(r#"{"event":"debug_x"}"#, "2024-05-01").unwrap();
        assert_eq!(dropped.json, None);
        let early = applied(r#"{"event":"a","timestamp":"2001-01-01"}"#, "2001-01-01").unwrap();
        assert!(early.json.unwrap().contains("2020-01-01T00:00:00Z"));
        assert_eq!(early.timestamp, at("2020-01-01"));
        let late = applied(r#"{"event":"a"}"#, "2027-01-01").unwrap();
        assert_eq!(late.timestamp, at("2025-01-01"));
    }

    #[test]
    fn an_event_that_the_rules_cannot_change_is_refused() {
        let table = [
            (r#"{"event":"a","properties":{"price":"x"}}"#, "cannot_cast"),
            (r#"{"event":}"#, "invalid_json"),
        ];
        for (json, code) in table {
            let error = applied(json, "2024-05-01").unwrap_err();
            assert_eq!(error.code, code, "{json}");
        }
    }

    #[test]
    fn unknown_rules_and_invalid_values_are_refused() {
        let table = [
            ("[event]\n", "unknown field `event`"),
            ("[time]\nearliest = \"soon\"\n", "is not a time"),
            ("[properties]\ncast = { a = \"text\" }\n", "unknown variant"),
        ];
        for (text, needle) in table {
            let error = toml::from_str::<Rules>(text).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
        assert!(toml::from_str::<Rules>("").unwrap().is_empty());
    }
}
