//! Exports of other tools in, our events out.
//!
//! A file is decompressed by the caller ([`Input`]), taken apart by a [`Framing`], and each record made
//! into events by a [`Mapping`]. A [`Format`] names the two; [`Options`] are what its user may choose.
//!
//! | Module | Holds |
//! |---|---|
//! | `format`, `guess`, `options` | the formats by name and by their looks, what their users may choose |
//! | `record`, `fault` | records, positions, what is wrong with them |
//! | `events` | what mappings write |
//! | `mapping` | a file for each tool's records |
//! | `json`, `instant`, `countries` | values, times and places as other tools write them |
//! | `time` | times as we write them |
//! | `framing` | lines, arrays, CSV, Parquet |
//! | `scan` | where JSON values end |
//! | `testing` | files and APIs as tests need them, with the feature `testing` only |
//! | `export`, `exports` | export APIs: what they have in common, a file for each |
//!
//! Rules that a mapping counts (`events.note`):
//!
//! | Rule | What was done |
//! |---|---|
//! | `renamed_event` | the event has the name that it has here |
//! | `skipped_without_distinct_id` | left out, as `skip_without_distinct_id` asks |
//! | `distinct_id_before_identity` | Mixpanel: no `distinct_id`, but the one that the event was sent with |
//! | `distinct_id_from_user_or_device` | Mixpanel: no `distinct_id`, or a device's, but `$user_id` or `$device_id` |
//! | `merged_persons` | an event that makes one person of two |
//! | `skipped_without_event_type` | Amplitude: no event of the application's |
//! | `time_of_another_field` | the usual field has none that can be read, but another has |
//! | `distinct_id_from_amplitude_id` | Amplitude: neither user nor device, but Amplitude's number of the person |
//! | `generated_identify`, `generated_merge`, `generated_groupidentify` | an event more, for what the record says of ids or groups |

#![forbid(unsafe_code)]

mod countries;
mod events;
mod export;
mod exports;
mod fault;
mod format;
pub mod framing;
mod guess;
mod instant;
mod json;
mod mapping;
mod options;
mod record;
pub mod scan;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;

pub use events::{Event, EventWriter, Events, Id, Mapping};
pub use export::{Export, FetchError, Part, Transfer};
pub use exports::{
    AmplitudeExport, AmplitudeSettings, ExportSettingsError, MixpanelCredentials, MixpanelExport,
    MixpanelSettings, Pace,
};
pub use format::Format;
pub use mapping::Captured;
pub use options::{Columns, Options, OptionsError};
pub use record::{FileError, Framing, Input, Position, Record, RecordError};
