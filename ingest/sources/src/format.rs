//! Formats of files, by name.

use crate::framing::{Csv, Lines, Parquet};
use crate::mapping::{Amplitude, Captured, GoogleAnalytics, Mixpanel, Rows, Segment, Snowplow};
use crate::{FileError, Framing, Input, Mapping, Options, OptionsError, Position, framing};
use serde::{Deserialize, Serialize};

/// A format of files of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Events as clients send them, one by one or in batches.
    Captured,
    /// Mixpanel's raw export: lines of JSON.
    Mixpanel,
    /// Amplitude's export: lines of JSON.
    Amplitude,
    /// Segment's archives: lines of JSON.
    Segment,
    /// RudderStack's archives: lines of JSON.
    Rudderstack,
    /// Snowplow's enriched events: lines of columns between tabs.
    Snowplow,
    /// Google Analytics 4 as BigQuery exports it: lines of JSON.
    GoogleAnalytics,
    /// Rows of an events table in ClickHouse, ours or PostHog's: lines of JSON (`JSONEachRow`).
    Clickhouse,
    /// Rows below a header, by the names of columns.
    Csv,
    /// Rows by the names of columns.
    Parquet,
}

impl Format {
    /// All formats, in the order that users see.
    pub const ALL: &[Self] = &[
        Self::Captured,
        Self::Mixpanel,
        Self::Amplitude,
        Self::Segment,
        Self::Rudderstack,
        Self::Snowplow,
        Self::GoogleAnalytics,
        Self::Clickhouse,
        Self::Csv,
        Self::Parquet,
    ];

    /// Name of the format for users.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            Self::Mixpanel => "mixpanel",
            Self::Amplitude => "amplitude",
            Self::Segment => "segment",
            Self::Rudderstack => "rudderstack",
            Self::Snowplow => "snowplow",
            Self::GoogleAnalytics => "google-analytics",
            Self::Clickhouse => "clickhouse",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }

    /// Finds a format by its name for users.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|format| format.name() == name)
    }

    /// Opens the records of a file from a position on. `input` is at the file's beginning.
    ///
    /// # Errors
    /// The file cannot be read, ends before the position or is not of this format.
    pub fn open(
        self,
        input: Input,
        at: Position,
        options: &Options,
    ) -> Result<Box<dyn Framing>, FileError> {
        match self {
            Self::Captured
            | Self::Mixpanel
            | Self::Amplitude
            | Self::Segment
            | Self::Rudderstack
            | Self::GoogleAnalytics
            | Self::Clickhouse => framing::json(input, at),
            Self::Csv => {
                let malformed = |error: OptionsError| FileError::Malformed {
                    offset: 0,
                    message: error.to_string(),
                };
                let delimiter = options.delimiter().map_err(malformed)?;
                Ok(Box::new(Csv::open(input, at, delimiter)?))
            }
            Self::Parquet => Ok(Box::new(Parquet::open(input, at)?)),
            Self::Snowplow => Ok(Box::new(Lines::open(input, at)?)),
        }
    }

    /// Creates the mapping of the format's records to events.
    ///
    /// # Errors
    /// An option is invalid.
    pub fn mapping(self, options: &Options) -> Result<Box<dyn Mapping>, OptionsError> {
        Ok(match self {
            Self::Captured => Box::new(Captured),
            Self::Mixpanel => Box::new(Mixpanel::new(options)?),
            Self::Amplitude => Box::new(Amplitude::new(options)?),
            Self::GoogleAnalytics => Box::new(GoogleAnalytics::new(options)?),
            Self::Clickhouse => Box::new(Rows::of_clickhouse(options)?),
            Self::Csv => {
                options.delimiter()?;
                Box::new(Rows::of_csv(options)?)
            }
            Self::Parquet => Box::new(Rows::of_parquet(options)?),
            Self::Snowplow => Box::new(Snowplow::new(options)?),
            Self::Segment | Self::Rudderstack => Box::new(Segment::new(self.name(), options)?),
        })
    }
}
