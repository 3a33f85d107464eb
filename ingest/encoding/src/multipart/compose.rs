//! Composes one event of its parts: text is put beside text, so that all of it stays as it was
//! sent.

use super::members::{Event, Members};
use super::part::{Part, refused, shown};
use crate::BodyDecodeError;
use crate::body_decoder::Encoded;
use http::StatusCode;
use millrace_parse::{ApiError, ErrorType};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::io::{Error, ErrorKind, Write};

const PROPERTIES: &str = "event.properties";

/// Parts of one event.
#[derive(Default)]
pub(super) struct Parts {
    event: Option<Part>,
    properties: Option<Part>,
    blobs: Vec<Part>,
}

/// Layout of an event's text, with what is put into it.
#[derive(Default)]
struct Layout<'a> {
    /// Members before the properties.
    before: &'a str,
    /// Name of the properties, where the event does not have it.
    name: &'static str,
    /// Members of the properties, if parts belong to them.
    properties: Option<Members<'a>>,
    /// Members behind the properties.
    after: &'a str,
}

impl Parts {
    /// Adds a part; each name may come once.
    pub(super) fn add(&mut self, part: Part) -> Result<(), ApiError> {
        let place = match part.name.as_str() {
            "event" => &mut self.event,
            PROPERTIES => &mut self.properties,
            name if property(name).is_some() => {
                if self.blobs.iter().any(|blob| blob.name == name) {
                    return Err(sent_twice(name));
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
            return Err(sent_twice(&part.name));
        }
        *place = Some(part);
        Ok(())
    }

    /// Writes the event's JSON, with the key that the head had.
    pub(super) fn compose(
        &self,
        key: Option<&str>,
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), BodyDecodeError> {
        let event = self.event.as_ref();
        let event = event.ok_or_else(|| refused("There is no part `event`.".to_owned()))?;
        let members = object(event)?;
        let mut layout = Layout {
            before: members.text,
            ..Layout::default()
        };
        if key.is_some() || self.properties.is_some() || !self.blobs.is_empty() {
            let event = Event::of(members).map_err(|error| not_json("event", &error))?;
            event.check_key(key)?;
            self.lay_out(members, event.properties, &mut layout)?;
        }
        let mut out = Bounded { out, bytes_max };
        let written = self.write(key, &layout, &mut out);
        written.map_err(|_| BodyDecodeError::TooLarge(Encoded::default()))
    }

    fn lay_out<'a>(
        &'a self,
        event: Members<'a>,
        embedded: Option<&'a RawValue>,
        layout: &mut Layout<'a>,
    ) -> Result<(), ApiError> {
        if self.properties.is_none() && self.blobs.is_empty() {
            return Ok(());
        }
        let properties = match (embedded, &self.properties) {
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
                part.as_ref().map_or(Ok(Members::NONE), object)?
            }
        };
        self.check_names(properties)?;
        layout.properties = Some(properties);
        Ok(())
    }

    /// Refuses a property that is a part of its own and among the others, too: one would hide the
    /// other.
    fn check_names(&self, properties: Members<'_>) -> Result<(), ApiError> {
        if self.blobs.is_empty() {
            return Ok(());
        }
        let parts = self.blobs.iter();
        let parts = parts.filter_map(|blob| Some((property(&blob.name)?.as_bytes(), &*blob.name)));
        let parts: HashMap<_, _> = parts.collect();
        let mut found = None;
        let read = properties.for_each(|name, _| found = found.or(parts.get(name).copied()));
        read.map_err(|error| not_json(PROPERTIES, &error))?;
        found.map_or(Ok(()), |name| {
            let shown = shown(name);
            let detail = format!(
                "The property of the part `{shown}` is in the properties as well. Send it once."
            );
            Err(refused(detail).at(shown))
        })
    }

    fn write(
        &self,
        key: Option<&str>,
        layout: &Layout<'_>,
        out: &mut Bounded<'_>,
    ) -> Result<(), Error> {
        write!(out, "{{{}{}", layout.before, layout.name)?;
        if let Some(properties) = &layout.properties {
            self.write_properties(properties, out)?;
        }
        out.write_all(layout.after.as_bytes())?;
        // Behind all others, so that it is the one that counts.
        if let Some(key) = key {
            let is_only = layout.before.trim().is_empty() && layout.name.is_empty();
            write!(out, "{}\"api_key\":", if is_only { "" } else { "," })?;
            serde_json::to_writer(&mut *out, key)?;
        }
        out.write_all(b"}")
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

/// Property that a part is, if it is one.
fn property(name: &str) -> Option<&str> {
    let name = name.strip_prefix(PROPERTIES)?.strip_prefix('.')?;
    (!name.is_empty()).then_some(name)
}

/// Members of a part that must be an object.
fn object(part: &Part) -> Result<Members<'_>, ApiError> {
    let raw: &RawValue =
        serde_json::from_str(&part.text).map_err(|error| not_json(&part.name, &error))?;
    Members::within(raw)
        .ok_or_else(|| refused(format!("The part `{}` must be a JSON object.", part.name)))
}

/// Buffer with a limit.
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

/// Error for a part that was sent twice.
fn sent_twice(name: &str) -> ApiError {
    let shown = shown(name);
    refused(format!("The part `{shown}` was sent twice. Send it once.")).at(shown)
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
