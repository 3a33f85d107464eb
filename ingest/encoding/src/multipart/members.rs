//! JSON objects as text: their members as they were sent, and the names of these.

use millrace_parse::ApiError;
use serde::Deserializer;
use serde::de::{Deserialize, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Text of a JSON object.
#[derive(Clone, Copy)]
pub(super) struct Members<'a> {
    whole: &'a str,
    /// Text without its braces.
    pub(super) text: &'a str,
}

impl<'a> Members<'a> {
    pub(super) const NONE: Self = Self {
        whole: "{}",
        text: "",
    };

    /// Members of a value, if it is an object.
    pub(super) fn within(raw: &'a RawValue) -> Option<Self> {
        let whole = raw.get();
        let text = whole.strip_prefix('{')?.strip_suffix('}')?;
        Some(Self { whole, text })
    }

    pub(super) fn is_empty(self) -> bool {
        self.text.trim().is_empty()
    }

    /// Members before and behind a value of theirs, which is a piece of the text.
    pub(super) fn around(self, value: &str) -> (&'a str, &'a str) {
        let at = value
            .as_ptr()
            .addr()
            .saturating_sub(self.text.as_ptr().addr());
        let before = self.text.get(..at).unwrap_or_default();
        let after = self.text.get(at + value.len()..).unwrap_or_default();
        (before, after)
    }

    /// Shows each member in the order of the text: its name without escapes, and its value.
    pub(super) fn for_each(
        self,
        show: impl FnMut(&[u8], &'a RawValue),
    ) -> Result<(), serde_json::Error> {
        serde_json::Deserializer::from_str(self.whole).deserialize_map(Each(show))
    }
}

/// Members of an event that decide what is put into it; of several with one name the last, as
/// parsers have it.
#[derive(Default)]
pub(super) struct Event<'a> {
    pub(super) properties: Option<&'a RawValue>,
    api_key: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    pub(super) fn of(members: Members<'a>) -> Result<Self, serde_json::Error> {
        let mut event = Self::default();
        members.for_each(|name, value| {
            let value = Some(value).filter(|value| value.get() != "null");
            match name {
                b"properties" => event.properties = value,
                b"api_key" => event.api_key = value,
                _ => {}
            }
        })?;
        Ok(event)
    }

    /// Refuses an event that names another project than the head does.
    pub(super) fn check_key(&self, key: Option<&str>) -> Result<(), ApiError> {
        let (Some(own), Some(key)) = (self.api_key, key) else {
            return Ok(());
        };
        let own = serde_json::from_str::<String>(own.get());
        if own.is_ok_and(|own| own.trim() == key.trim()) {
            Ok(())
        } else {
            Err(ApiError::multiple_api_keys())
        }
    }
}

struct Each<F>(F);

impl<'de, F: FnMut(&[u8], &'de RawValue)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = members.next_key()? {
            (self.0)(&name, members.next_value()?);
        }
        Ok(())
    }
}

/// Name of a member as bytes, as halves of surrogate pairs are no reason to refuse it.
struct Name<'a>(Cow<'a, [u8]>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_bytes<E: Error>(self, name: &'de [u8]) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_vec())))
            }
        }

        deserializer.deserialize_bytes(NameVisitor)
    }
}
