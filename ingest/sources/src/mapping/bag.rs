//! Properties that are gathered from several places before they are written.

use crate::EventWriter;
use crate::json;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A value: as it stood in the source, or made of it.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Given<'a> {
    /// JSON as it stood.
    Raw(&'a RawValue),
    /// A text.
    Text(Cow<'a, str>),
    /// A number in JSON's spelling.
    Number(#[serde(serialize_with = "number")] Cow<'a, str>),
    /// Yes or no.
    Flag(bool),
    /// Several, as they stood.
    List(Vec<&'a RawValue>),
}

/// A number as it is spelt; what is none becomes null.
fn number<S: Serializer>(spelt: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let raw: Option<&RawValue> = serde_json::from_str(spelt).ok();
    raw.serialize(serializer)
}

/// Properties by name, each once.
#[derive(Debug, Default)]
pub(crate) struct Bag<'a>(Vec<(Cow<'a, str>, Given<'a>)>);

impl<'a> Bag<'a> {
    /// Adds a property, or changes it.
    pub(crate) fn put(&mut self, name: impl Into<Cow<'a, str>>, value: Given<'a>) {
        let name = name.into();
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, place)) => *place = value,
            None => self.0.push((name, value)),
        }
    }

    /// Adds a property that is known not to be there.
    pub(crate) fn push(&mut self, name: impl Into<Cow<'a, str>>, value: Given<'a>) {
        self.0.push((name.into(), value));
    }

    /// Adds a property unless there is one of this name.
    pub(crate) fn put_new(&mut self, name: impl Into<Cow<'a, str>>, value: Given<'a>) {
        let name = name.into();
        if !self.has(&name) {
            self.0.push((name, value));
        }
    }

    /// Adds or changes a property, if the source has it.
    pub(crate) fn put_raw(&mut self, name: impl Into<Cow<'a, str>>, value: Option<&'a RawValue>) {
        if let Some(value) = value.filter(|value| !json::is_null(value)) {
            self.put(name, Given::Raw(value));
        }
    }

    /// Adds or changes a property, if there is a text for it.
    pub(crate) fn put_text(&mut self, name: impl Into<Cow<'a, str>>, text: Option<Cow<'a, str>>) {
        if let Some(text) = text {
            self.put(name, Given::Text(text));
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Given<'a>> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes them as the event's.
    pub(crate) fn write(&self, event: &mut EventWriter<'_>) {
        for (name, value) in &self.0 {
            event.property(name, value);
        }
    }

    /// Writes them as the person's.
    pub(crate) fn write_set(&self, event: &mut EventWriter<'_>) {
        for (name, value) in &self.0 {
            event.set(name, value);
        }
    }

    /// Writes them as the person's, where it has none.
    pub(crate) fn write_set_once(&self, event: &mut EventWriter<'_>) {
        for (name, value) in &self.0 {
            event.set_once(name, value);
        }
    }
}

impl Serialize for Bag<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
