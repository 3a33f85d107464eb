//! Properties that are gathered from several places before they are written.

use crate::EventWriter;
use crate::json;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

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
    /// Several, each as it is given.
    Many(Vec<Given<'a>>),
    /// An object of these members.
    Members(#[serde(serialize_with = "members")] Vec<(Cow<'a, str>, &'a RawValue)>),
}

/// A number as it is spelt; what is none becomes null.
fn number<S: Serializer>(spelt: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let raw: Option<&RawValue> = serde_json::from_str(spelt).ok();
    raw.serialize(serializer)
}

fn members<S: Serializer>(
    members: &[(Cow<'_, str>, &RawValue)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(members.iter().map(|(name, value)| (name, value)))
}

/// Beyond so many, names are looked up by their hash: one after the other would take a minute for what a record can hold.
const FEW: usize = 64;

/// Properties by name, each once.
#[derive(Debug, Default)]
pub(crate) struct Bag<'a> {
    list: Vec<(Cow<'a, str>, Given<'a>)>,
    /// Where a name stands in the list, once there are more than a few.
    places: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Bag<'a> {
    fn place(&self, name: &str) -> Option<usize> {
        if self.list.len() > FEW {
            return self.places.get(name).copied();
        }
        self.list.iter().position(|(other, _)| other == name)
    }

    /// Adds a property, or changes it.
    pub(crate) fn put(&mut self, name: impl Into<Cow<'a, str>>, value: Given<'a>) {
        let name = name.into();
        let place = self.place(&name);
        match place.and_then(|place| self.list.get_mut(place)) {
            Some((_, place)) => *place = value,
            None => self.push(name, value),
        }
    }

    /// Adds a property that is known not to be there.
    pub(crate) fn push(&mut self, name: impl Into<Cow<'a, str>>, value: Given<'a>) {
        self.list.push((name.into(), value));
        if self.list.len() <= FEW {
            return;
        }
        let known = self.places.len();
        for (place, (name, _)) in self.list.iter().enumerate().skip(known) {
            self.places.insert(name.clone(), place);
        }
    }

    /// Adds a property unless there is one of this name.
    pub(crate) fn put_new(&mut self, name: impl Into<Cow<'a, str>>, value: Given<'a>) {
        let name = name.into();
        if !self.has(&name) {
            self.push(name, value);
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
        let found = self.list.get(self.place(name)?);
        found.map(|(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Writes them as the event's.
    pub(crate) fn write(&self, event: &mut EventWriter<'_>) {
        for (name, value) in &self.list {
            event.property(name, value);
        }
    }

    /// Writes them as the person's.
    pub(crate) fn write_set(&self, event: &mut EventWriter<'_>) {
        for (name, value) in &self.list {
            event.set(name, value);
        }
    }

    /// Writes them as the person's, where it has none.
    pub(crate) fn write_set_once(&self, event: &mut EventWriter<'_>) {
        for (name, value) in &self.list {
            event.set_once(name, value);
        }
    }
}

impl Serialize for Bag<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.list.iter().map(|(name, value)| (name, value)))
    }
}
