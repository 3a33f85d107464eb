//! Size and shape of the events.

use anyhow::Result;
use clap::Args;
use millrace_load::event_shape::{EventShape, parse_event_bytes};
use millrace_load::mix::RequestSize;
use millrace_load::own_body::OwnBody;
use millrace_load::{Compression, Plan};
use std::path::PathBuf;

/// Size and shape of the events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Events")]
pub struct EventArgs {
    /// Events in a request.
    #[arg(short, long, value_name = "N", default_value_t = 250)]
    pub batch_events: u32,
    /// Bytes of one event, or `default` (998, 25 properties) or `small` (136, one property).
    #[arg(short, long, value_name = "BYTES", default_value = "default", value_parser = parse_event_bytes)]
    pub event_bytes: usize,
    /// Sizes that requests take in turn by their weights, such as 1=70,20=25,1000xsmall=5: 70 of a
    /// hundred have one event. `EVENTS[xBYTES][=WEIGHT]`; without BYTES an event has --event-bytes.
    #[arg(
        long,
        value_name = "SIZE,…",
        value_delimiter = ',',
        conflicts_with = "batch_events"
    )]
    #[arg(value_parser = RequestSize::parse)]
    pub mix: Vec<RequestSize>,
    /// File whose content is sent as the body, with {{uuid}}, {{time}} and {{key}} filled in before
    /// each sending. Several files are taken in turn.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["batch_events", "event_bytes", "mix"])]
    pub body_file: Vec<PathBuf>,
    /// Similarity of the events, which decides the cost of compression.
    #[arg(long, value_name = "SHAPE", value_enum, default_value_t = EventShape::Visits)]
    pub event_shape: EventShape,
    /// Encoding of the bodies.
    #[arg(long, value_name = "CODING", value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
    /// Compression level; the lowest costs the generator least.
    #[arg(long, value_name = "LEVEL", default_value_t = 1)]
    pub compression_level: i32,
    /// Share of the requests that are historical migrations of the past year, 0 to 1.
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    pub historical_share: f64,
    /// Share of the requests with one event to be rejected, 0 to 1.
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    pub rejected_share: f64,
    /// First eight hexadecimal digits of all uuids; random by default.
    #[arg(long, value_name = "HEX", value_parser = run_id)]
    pub run_id: Option<u32>,
}

impl EventArgs {
    /// Bodies of the files in place of events of our making.
    pub fn bodies(&self) -> Result<Vec<OwnBody>> {
        self.body_file
            .iter()
            .map(|file| OwnBody::read(file))
            .collect()
    }

    /// Gives a plan the events of the options.
    pub fn apply(&self, plan: &mut Plan) {
        plan.batch_events = self.batch_events;
        plan.event_bytes = self.event_bytes;
        plan.mix.clone_from(&self.mix);
        plan.event_shape = self.event_shape;
        plan.compression = self.compression;
        plan.compression_level = self.compression_level;
        plan.historical_share = self.historical_share;
        plan.rejected_share = self.rejected_share;
        plan.run_id = self.run_id;
    }
}

fn run_id(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 16).map_err(|_| "up to eight hexadecimal digits".to_owned())
}
