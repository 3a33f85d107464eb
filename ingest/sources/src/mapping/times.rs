//! Parses the times of records by the user's settings for the source's clock.

use crate::{Options, OptionsError, RecordError, instant};
use jiff::tz::TimeZone;
use millrace_rows::Micros;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Parses times with a zone and an offset.
pub(crate) struct Times {
    zone: TimeZone,
    is_utc: bool,
    offset_micros: i64,
}

impl Times {
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        let zone = options.zone()?;
        Ok(Self {
            is_utc: zone == TimeZone::UTC,
            zone,
            offset_micros: options
                .time_offset_seconds
                .saturating_mul(MICROS_PER_SECOND),
        })
    }

    /// Parses a time in ISO 8601.
    pub(crate) fn iso(&self, field: &'static str, text: &str) -> Result<Micros, RecordError> {
        let at = instant::iso(text, &self.zone);
        self.with_offset(at)
            .ok_or_else(|| instant::invalid(field, text))
    }

    /// Parses a number since 1970 in UTC.
    pub(crate) fn epoch(&self, field: &'static str, number: &str) -> Result<Micros, RecordError> {
        let at = instant::epoch(number);
        self.with_offset(at)
            .ok_or_else(|| instant::invalid(field, number))
    }

    /// Parses a number since 1970 of a clock that shows the zone's time.
    pub(crate) fn local_epoch(
        &self,
        field: &'static str,
        number: &str,
    ) -> Result<Micros, RecordError> {
        let read = instant::epoch(number);
        let at = match self.is_utc {
            true => read,
            false => read.and_then(|read| instant::shifted(read, &self.zone)),
        };
        self.with_offset(at)
            .ok_or_else(|| instant::invalid(field, number))
    }

    /// Parses a time in ISO 8601, or a number since 1970 in UTC.
    pub(crate) fn either(&self, field: &'static str, text: &str) -> Result<Micros, RecordError> {
        let text = text.trim();
        match text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            true => self.epoch(field, text),
            false => self.iso(field, text),
        }
    }

    fn with_offset(&self, at: Option<Micros>) -> Option<Micros> {
        let at = at?.plus_micros(self.offset_micros);
        instant::in_range(at.0)
    }
}
