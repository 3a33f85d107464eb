//! A range of days or hours, split into parts.

use super::ExportSettingsError;
use crate::Part;
use jiff::civil::{Date, DateTime};
use jiff::{Span, ToSpan as _};

/// Unit of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeUnit {
    /// Calendar days.
    Day,
    /// Hours.
    Hour,
}

impl RangeUnit {
    fn span(self, count: i64) -> Span {
        match self {
            Self::Day => count.days(),
            Self::Hour => count.hours(),
        }
    }
}

/// Formats of times in requests and in the names of parts, for `strftime`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeFormats {
    pub(super) request: &'static str,
    pub(super) name: &'static str,
}

/// A range from the first unit to the last, in parts of a number of units.
#[derive(Debug)]
pub(super) struct ExportRange {
    first: DateTime,
    last: DateTime,
    unit: RangeUnit,
    units_per_part: u32,
}

impl ExportRange {
    /// Creates a range of all units of the days from the first to the last, each as in
    /// `2024-05-31`.
    pub(super) fn new(
        from: &str,
        until: &str,
        unit: RangeUnit,
        units_per_part: u32,
    ) -> Result<Self, ExportSettingsError> {
        let day = |text: &str| {
            let day = text.parse::<Date>();
            day.map_err(|_| ExportSettingsError::Day(text.to_owned()))
        };
        let (first, last) = (day(from)?, day(until)?);
        if last < first {
            return Err(ExportSettingsError::Order {
                from: from.to_owned(),
                until: until.to_owned(),
            });
        }
        if units_per_part == 0 {
            return Err(ExportSettingsError::EmptyParts);
        }
        let last_hour = match unit {
            RangeUnit::Day => 0,
            RangeUnit::Hour => 23,
        };
        Ok(Self {
            first: first.at(0, 0, 0, 0),
            last: last.at(last_hour, 0, 0, 0),
            unit,
            units_per_part,
        })
    }

    /// Splits the range into parts named `TOOL-UNITS.ENDING`, of which the last may be shorter.
    pub(super) fn parts(&self, tool: &str, ending: &str, formats: TimeFormats) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut from = self.first;
        while from <= self.last {
            let rest = self.unit.span(i64::from(self.units_per_part) - 1);
            let until = from.saturating_add(rest).min(self.last);
            let written = |at: DateTime, format: &str| at.strftime(format).to_string();
            let mut units = written(from, formats.name);
            if from != until {
                units = format!("{units}--{}", written(until, formats.name));
            }
            parts.push(Part {
                name: format!("{tool}-{units}.{ending}"),
                from: written(from, formats.request),
                until: written(until, formats.request),
                bytes: None,
                version: None,
            });
            match until.checked_add(self.unit.span(1)) {
                Ok(next) => from = next,
                Err(_) => break,
            }
        }
        parts
    }
}
