//! JSON objects whose values stay text: numbers keep their digits, and only values that a rule
//! names are parsed.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Members of an object in their order; of members with the same name, the last.
#[derive(Debug, Default)]
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Object<'a> {
    /// Reads an object; `None` when the text is not an object.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let index = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(index).1)
    }

    /// Replaces the member of this name, or appends it.
    pub(super) fn set(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Removes the members for which `keep` is false; returns their number.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) -> usize {
        let before = self.0.len();
        self.0.retain(|(name, _)| keep(name));
        before - self.0.len()
    }

    pub(super) fn write(&self) -> String {
        let mut json = String::from("{");
        for (name, value) in &self.0 {
            if json.len() > 1 {
                json.push(',');
            }
            json.push_str(&serde_json::Value::from(&**name).to_string());
            json.push(':');
            json.push_str(value);
        }
        json.push('}');
        json
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut object = Object::default();
                while let Some(Name(name)) = map.next_key()? {
                    let value: &RawValue = map.next_value()?;
                    object.set(name, Cow::Borrowed(value.get()));
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// A member's name, borrowed if it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
