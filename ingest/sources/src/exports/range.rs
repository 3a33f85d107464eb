//! A range of days or hours, cut into parts.

use super::ExportSettingsError;
use crate::Part;
use jiff::civil::{Date, DateTime};
use jiff::{Span, ToSpan as _};

/// By what a service counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Calendar days.
    Day,
    /// Hours.
    Hour,
}

impl Unit {
    fn span(self, count: i64) -> Span {
        match self {
            Self::Day => count.days(),
            Self::Hour => count.hours(),
        }
    }
}

/// How a service writes a unit in requests, and we in names of parts, in the letters of `strftime`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub(super) request: &'static str,
    pub(super) name: &'static str,
}

/// From the first unit to the last, in parts of so many.
#[derive(Debug)]
pub(super) struct Range {
    first: DateTime,
    last: DateTime,
    unit: Unit,
    units_per_part: u32,
}

impl Range {
    /// All units of the days from the first to the last, each as in `2024-05-31`.
    pub(super) fn new(
        from: &str,
        until: &str,
        unit: Unit,
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
            Unit::Day => 0,
            Unit::Hour => 23,
        };
        Ok(Self {
            first: first.at(0, 0, 0, 0),
            last: last.at(last_hour, 0, 0, 0),
            unit,
            units_per_part,
        })
    }

    /// The parts, of which the last may be shorter. They are called `TOOL-UNITS.ENDING`.
    pub(super) fn parts(&self, tool: &str, ending: &str, writing: Writing) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut from = self.first;
        while from <= self.last {
            let rest = self.unit.span(i64::from(self.units_per_part) - 1);
            let until = from.saturating_add(rest).min(self.last);
            let written = |at: DateTime, how: &str| at.strftime(how).to_string();
            let mut units = written(from, writing.name);
            if from != until {
                units = format!("{units}--{}", written(until, writing.name));
            }
            parts.push(Part {
                name: format!("{tool}-{units}.{ending}"),
                from: written(from, writing.request),
                until: written(until, writing.request),
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
