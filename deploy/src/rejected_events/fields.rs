//! Fields of an event. They stay as they were sent, to the letter: numbers keep their digits, texts
//! their escapes.

use anyhow::anyhow;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;

/// Fields of a JSON object, by name.
pub type Fields = BTreeMap<String, Box<RawValue>>;

/// Field with the properties of an event.
const PROPERTIES: &str = "properties";

/// Place of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldPath {
    /// Field of the event itself.
    Event(String),
    /// Field of its properties.
    Property(String),
}

impl FieldPath {
    /// Parses `name` or `properties.name`. A property's name may have further dots.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let property = text
            .strip_prefix(PROPERTIES)
            .and_then(|rest| rest.strip_prefix('.'));
        match property {
            Some(name) if !name.is_empty() => Self::Property(name.to_owned()),
            _ => Self::Event(text.to_owned()),
        }
    }

    /// Returns true for a field of the properties.
    #[must_use]
    pub const fn is_property(&self) -> bool {
        matches!(self, Self::Property(_))
    }
}

/// Parses a JSON object.
///
/// # Errors
/// When the text is anything else.
pub fn parse(text: &str) -> serde_json::Result<Fields> {
    serde_json::from_str(text)
}

/// Fields of an event that is changed.
#[derive(Debug)]
pub struct EventFields {
    event: Fields,
    /// Fields of the properties, if these are changed as well; `event` has them no more.
    properties: Option<Fields>,
}

impl EventFields {
    /// Fields of an event; with `opens`, those of its properties as well.
    ///
    /// # Errors
    /// When its properties are to be opened and are no object.
    pub fn new(mut event: Fields, opens: bool) -> anyhow::Result<Self> {
        let properties = match opens {
            true => Some(opened(event.remove(PROPERTIES).as_deref())?),
            false => None,
        };
        Ok(Self { event, properties })
    }

    /// Takes a field out; `None` if there is none.
    ///
    /// # Errors
    /// When the field cannot be written as JSON, which no field does.
    pub fn take(&mut self, path: &FieldPath) -> anyhow::Result<Option<Box<RawValue>>> {
        Ok(match (path, &mut self.properties) {
            (FieldPath::Property(name), properties) => {
                let properties = properties.as_mut();
                properties.and_then(|properties| properties.remove(name))
            }
            (FieldPath::Event(name), Some(properties)) if name == PROPERTIES => {
                Some(to_raw_value(&std::mem::take(properties))?)
            }
            (FieldPath::Event(name), _) => self.event.remove(name),
        })
    }

    /// Puts a field in, in the place of the one that is there.
    ///
    /// # Errors
    /// When it takes the place of properties that are open, and is no object.
    pub fn put(&mut self, path: &FieldPath, value: Box<RawValue>) -> anyhow::Result<()> {
        match (path, &mut self.properties) {
            (FieldPath::Property(name), properties) => {
                let properties = properties.get_or_insert_default();
                properties.insert(name.clone(), value);
            }
            (FieldPath::Event(name), Some(properties)) if name == PROPERTIES => {
                *properties = opened(Some(&value))?;
            }
            (FieldPath::Event(name), _) => {
                self.event.insert(name.clone(), value);
            }
        }
        Ok(())
    }

    /// Fields of the event as it is sent.
    ///
    /// # Errors
    /// When the properties cannot be written as JSON, which none do.
    pub fn finished(mut self) -> anyhow::Result<Fields> {
        if let Some(properties) = self.properties {
            let properties = to_raw_value(&properties)?;
            self.event.insert(PROPERTIES.to_owned(), properties);
        }
        Ok(self.event)
    }
}

/// Fields of properties; none of properties that are missing or null.
fn opened(properties: Option<&RawValue>) -> anyhow::Result<Fields> {
    match properties.map(RawValue::get) {
        None | Some("null") => Ok(Fields::new()),
        Some(text) => parse(text).map_err(|_| anyhow!("its properties are no JSON object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_the_event_or_to_its_properties() {
        let event = |name: &str| FieldPath::Event(name.to_owned());
        let property = |name: &str| FieldPath::Property(name.to_owned());
        let table = [
            ("distinct_id", event("distinct_id")),
            ("properties", event("properties")),
            ("properties.", event("properties.")),
            ("properties.a.b", property("a.b")),
            ("propertiesa", event("propertiesa")),
        ];
        for (text, expected) in table {
            assert_eq!(FieldPath::of(text), expected, "{text}");
        }
    }
}
