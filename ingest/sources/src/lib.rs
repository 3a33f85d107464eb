//! Converts the exports of other tools into our events.
//!
//! A file is decompressed by the caller ([`Input`]), split into records by a [`Framing`], and each
//! record turned into events by a [`Mapping`]. A [`Format`] names the two; [`Options`] are its
//! settings.
//!
//! | Module | Holds |
//! |---|---|
//! | `format`, `detect`, `options` | the formats by name, their detection, and their settings |
//! | `record`, `record_error` | records, positions, errors |
//! | `events` | output of mappings |
//! | `mapping` | a file for each tool's records |
//! | `json`, `instant`, `countries` | values, times and countries as other tools write them |
//! | `time` | times as we write them |
//! | `framing` | lines, arrays, CSV, Parquet |
//! | `scan` | scan for the ends of JSON values |
//! | `testing` | files and APIs for tests, with the feature `testing` only |
//! | `export`, `export_clients` | export APIs: the common interface, a client for each |
//!
//! Rules that a mapping counts (`events.note`):
//!
//! | Rule | Effect |
//! |---|---|
//! | `renamed_event` | the event got our name for it |
//! | `skipped_without_distinct_id` | skipped, as `skip_without_distinct_id` asks |
//! | `distinct_id_before_identity` | Mixpanel: without `distinct_id`, the one that the event was sent with was taken |
//! | `distinct_id_from_user_or_device` | Mixpanel: without `distinct_id`, or with a device's, `$user_id` or `$device_id` was taken |
//! | `merged_persons` | an event that merges two persons |
//! | `skipped_without_event_type` | Amplitude: skipped, as it is no event of the application |
//! | `time_of_another_field` | the usual field has no readable time, and another was taken |
//! | `distinct_id_from_amplitude_id` | Amplitude: without user and device, Amplitude's number of the person was taken |
//! | `generated_identify`, `generated_merge`, `generated_groupidentify` | an additional event for ids or groups that the record names |

#![forbid(unsafe_code)]

mod countries;
mod detect;
mod events;
mod export;
mod export_clients;
mod format;
pub mod framing;
mod instant;
mod json;
mod mapping;
mod options;
mod record;
mod record_error;
pub mod scan;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;

pub use events::{Event, EventWriter, Events, Id, Mapping};
pub use export::{Export, FetchError, Part, Transfer};
pub use export_clients::{
    AmplitudeExport, AmplitudeSettings, ExportSettingsError, MixpanelCredentials, MixpanelExport,
    MixpanelSettings, RateLimit,
};
pub use format::Format;
pub use mapping::Captured;
pub use options::{Columns, Options, OptionsError};
pub use record::{FileError, Framing, Input, Position, Record, RecordError};
