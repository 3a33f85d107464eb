//! One event of its parts: text is put beside text, so that all of it stays as it was sent.

use super::{Part, refused, shown};
use crate::DecodeError;
use http::StatusCode;
use millrace_parse::{ApiError, ErrorType};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::io::{Error, ErrorKind, Write};

const PROPERTIES: &str = "event.properties";

/// The parts of one event.
#[derive(Default)]
pub(super) struct Parts {
    event: Option<Part>,
    properties: Option<Part>,
    blobs: Vec<Part>,
}

/// What of an event says where its properties are.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    properties: Option<&'a RawValue>,
}

/// An event's text, and what is put into it.
struct Layout<'a> {
    /// The members before the properties.
    before: &'a str,
    /// The name of the properties, where the event does not have it.
    name: &'static str,
    /// The members of the properties, if parts belong to them.
    properties: Option<Members<'a>>,
    /// The members behind the properties.
    after: &'a str,
}

impl Parts {
    /// Takes a part, each name once.
    pub(super) fn add(&mut self, part: Part) -> Result<(), ApiError> {
        let place = match part.name.as_str() {
            "event" => &mut self.event,
            PROPERTIES => &mut self.properties,
            name if property(name).is_some() => {
                if self.blobs.iter().any(|blob| blob.name == name) {
                    return Err(twice(name));
                }
                self.blobs.push(part);
                return Ok(());
            }
            name => {
                return Err(refused(format!(
                    "There is no part `{}`. Send `event`, `event.properties` and `event.properties.<name>`.",
                    shown(name)
                )));
            }
        };
        if place.is_some() {
            return Err(twice(&part.name));
        }
        *place = Some(part);
        Ok(())
    }

    /// Writes the event's JSON.
    pub(super) fn compose(
        &self,
        key: Option<&str>,
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), ApiError> {
        let event = self.event.as_ref();
        let event = event.ok_or_else(|| refused("There is no part `event`.".to_owned()))?;
        let layout = self.layout(Members::of(event)?)?;
        let mut out = Bounded { out, bytes_max };
        let written = self.write(key, &layout, &mut out);
        written.map_err(|_| DecodeError::TooLarge.into())
    }

    fn layout<'a>(&'a self, event: Members<'a>) -> Result<Layout<'a>, ApiError> {
        let mut layout = Layout {
            before: event.text,
            name: "",
            properties: None,
            after: "",
        };
        if self.properties.is_none() && self.blobs.is_empty() {
            return Ok(layout);
        }
        let embedded = serde_json::from_str::<Event<'_>>(event.whole);
        let embedded = embedded.map_err(|error| not_json("event", &error))?;
        let properties = match (embedded.properties, &self.properties) {
            (Some(_), Some(_)) => {
                return Err(refused(
                    "The properties are in the part `event` and in `event.properties`. Send them once."
                        .to_owned(),
                ));
            }
            (Some(raw), None) => {
                (layout.before, layout.after) = event.around(raw.get());
                Members::within(raw).ok_or_else(|| {
                    ApiError::invalid("invalid_properties", "`properties` must be an object.")
                        .at("properties")
                })?
            }
            (None, part) => {
                layout.name = if event.is_empty() {
                    "\"properties\":"
                } else {
                    ",\"properties\":"
                };
                part.as_ref().map_or(Ok(Members::NONE), Members::of)?
            }
        };
        layout.properties = Some(properties);
        Ok(layout)
    }

    fn write(
        &self,
        key: Option<&str>,
        layout: &Layout<'_>,
        out: &mut Bounded<'_>,
    ) -> Result<(), Error> {
        out.write_all(b"{")?;
        if let Some(key) = key {
            out.write_all(b"\"api_key\":")?;
            serde_json::to_writer(&mut *out, key)?;
            let is_last = layout.before.trim().is_empty() && layout.name.is_empty();
            write!(out, "{}", if is_last { "" } else { "," })?;
        }
        write!(out, "{}{}", layout.before, layout.name)?;
        if let Some(properties) = &layout.properties {
            self.write_properties(properties, out)?;
        }
        write!(out, "{}}}", layout.after)
    }

    fn write_properties(
        &self,
        properties: &Members<'_>,
        out: &mut Bounded<'_>,
    ) -> Result<(), Error> {
        write!(out, "{{{}", properties.text)?;
        let mut is_first = properties.is_empty();
        for blob in &self.blobs {
            if !is_first {
                out.write_all(b",")?;
            }
            is_first = false;
            serde_json::to_writer(&mut *out, property(&blob.name).unwrap_or_default())?;
            out.write_all(b":")?;
            let value = serde_json::from_str::<&RawValue>(&blob.text);
            match value.ok().filter(|_| blob.is_json) {
                Some(value) => out.write_all(value.get().as_bytes())?,
                None => serde_json::to_writer(&mut *out, &blob.text)?,
            }
        }
        out.write_all(b"}")
    }
}

/// The property that a part is, if it is one.
fn property(name: &str) -> Option<&str> {
    let name = name.strip_prefix(PROPERTIES)?.strip_prefix('.')?;
    (!name.is_empty()).then_some(name)
}

/// A JSON object's text.
#[derive(Clone, Copy)]
struct Members<'a> {
    whole: &'a str,
    /// Without its braces.
    text: &'a str,
}

impl<'a> Members<'a> {
    const NONE: Self = Self {
        whole: "{}",
        text: "",
    };

    /// The members of a part that must be an object.
    fn of(part: &'a Part) -> Result<Self, ApiError> {
        let raw: &RawValue =
            serde_json::from_str(&part.text).map_err(|error| not_json(&part.name, &error))?;
        Self::within(raw)
            .ok_or_else(|| refused(format!("The part `{}` must be a JSON object.", part.name)))
    }

    fn within(raw: &'a RawValue) -> Option<Self> {
        let whole = raw.get();
        let text = whole.strip_prefix('{')?.strip_suffix('}')?;
        Some(Self { whole, text })
    }

    fn is_empty(self) -> bool {
        self.text.trim().is_empty()
    }

    /// The members before and behind a value of theirs, which is a piece of the text.
    fn around(self, value: &str) -> (&'a str, &'a str) {
        let at = value
            .as_ptr()
            .addr()
            .saturating_sub(self.text.as_ptr().addr());
        let before = self.text.get(..at).unwrap_or_default();
        let after = self.text.get(at + value.len()..).unwrap_or_default();
        (before, after)
    }
}

/// A buffer that takes no more than it may.
struct Bounded<'a> {
    out: &'a mut Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        if self.out.len() + bytes.len() > self.bytes_max {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

fn twice(name: &str) -> ApiError {
    refused(format!("The part `{}` was sent twice.", shown(name)))
}

fn not_json(name: &str, error: &serde_json::Error) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        "invalid_json",
        format!("The part `{name}` is not valid JSON: {error}."),
    )
    .at(name)
}
