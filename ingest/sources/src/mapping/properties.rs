//! Properties that are collected from several parts of a record before they are written.

use crate::EventWriter;
use crate::json;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

/// Value of a property: JSON of the source, or made of it.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum PropertyValue<'a> {
    /// JSON of the source.
    Raw(&'a RawValue),
    /// A text.
    Text(Cow<'a, str>),
    /// A number in JSON's spelling.
    Number(#[serde(serialize_with = "number")] Cow<'a, str>),
    /// A bool.
    Flag(bool),
    /// A list of the source's JSON values.
    List(Vec<&'a RawValue>),
    /// A list of values.
    Many(Vec<PropertyValue<'a>>),
    /// An object of these members.
    Members(#[serde(serialize_with = "members")] Vec<(Cow<'a, str>, &'a RawValue)>),
}

/// Serializes a number with its spelling; a text that is no number becomes null.
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

/// Number of properties above which names are looked up by hash: a linear search of the most that a
/// record can hold would take a minute.
const FEW: usize = 64;

/// Properties with unique names, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct PropertyMap<'a> {
    list: Vec<(Cow<'a, str>, PropertyValue<'a>)>,
    /// Index of each name in the list, once there are more than [`FEW`].
    indexes: HashMap<Cow<'a, str>, usize>,
}

impl<'a> PropertyMap<'a> {
    fn index(&self, name: &str) -> Option<usize> {
        if self.list.len() > FEW {
            return self.indexes.get(name).copied();
        }
        self.list.iter().position(|(other, _)| other == name)
    }

    /// Adds or replaces a property.
    pub(crate) fn put(&mut self, name: impl Into<Cow<'a, str>>, value: PropertyValue<'a>) {
        let name = name.into();
        let index = self.index(&name);
        match index.and_then(|index| self.list.get_mut(index)) {
            Some((_, old)) => *old = value,
            None => self.push(name, value),
        }
    }

    /// Adds a property whose name is not present.
    pub(crate) fn push(&mut self, name: impl Into<Cow<'a, str>>, value: PropertyValue<'a>) {
        self.list.push((name.into(), value));
        if self.list.len() <= FEW {
            return;
        }
        let known = self.indexes.len();
        for (index, (name, _)) in self.list.iter().enumerate().skip(known) {
            self.indexes.insert(name.clone(), index);
        }
    }

    /// Adds a property, unless there is one of this name.
    pub(crate) fn put_new(&mut self, name: impl Into<Cow<'a, str>>, value: PropertyValue<'a>) {
        let name = name.into();
        if !self.has(&name) {
            self.push(name, value);
        }
    }

    /// Adds or replaces a property, if the source has a value that is not null.
    pub(crate) fn put_raw(&mut self, name: impl Into<Cow<'a, str>>, value: Option<&'a RawValue>) {
        if let Some(value) = value.filter(|value| !json::is_null(value)) {
            self.put(name, PropertyValue::Raw(value));
        }
    }

    /// Adds or replaces a property, if there is a text for it.
    pub(crate) fn put_text(&mut self, name: impl Into<Cow<'a, str>>, text: Option<Cow<'a, str>>) {
        if let Some(text) = text {
            self.put(name, PropertyValue::Text(text));
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&PropertyValue<'a>> {
        let found = self.list.get(self.index(name)?);
        found.map(|(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Writes the properties of the event.
    pub(crate) fn write(&self, event: &mut EventWriter<'_>) {
        for (name, value) in &self.list {
            event.property(name, value);
        }
    }

    /// Writes the properties of the person that replace existing values.
    pub(crate) fn write_set(&self, event: &mut EventWriter<'_>) {
        for (name, value) in &self.list {
            event.set(name, value);
        }
    }

    /// Writes the properties of the person that do not replace existing values.
    pub(crate) fn write_set_once(&self, event: &mut EventWriter<'_>) {
        for (name, value) in &self.list {
            event.set_once(name, value);
        }
    }
}

impl Serialize for PropertyMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.list.iter().map(|(name, value)| (name, value)))
    }
}
