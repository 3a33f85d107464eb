//! Table of the suite's cases.

use super::bench::Bench;
use super::findings::Findings;
use super::growth::{self, GrowthAxis};
use super::load::{BATCHES, Load, load};
use super::server::Contestant::{self, Drain, Ours, Tape};
use super::store::Store;
use super::{
    disk, exports, flood, latency, memory, neighbour, overload, shipping, soak, throughput, visible,
};
use crate::event_shape::EventShape;
use crate::plan::Compression;
use anyhow::Result;

/// A case of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name for `--only`.
    pub name: &'static str,
    /// Heading of the case.
    pub title: &'static str,
    measurement: Measurement,
}

#[derive(Clone, Copy, Debug)]
enum Measurement {
    /// Servers side by side; the first is compared with the others.
    Throughput(Load, &'static [Contestant]),
    /// Cost of an event as a parameter of the load grows.
    Growth(GrowthAxis),
    /// Measurement of one case only.
    Own(fn(&mut Bench<'_>) -> Result<Findings>),
}

const OURS: Contestant = Contestant::OURS;
const OURS_TWICE: Contestant = Ours {
    workers: 2,
    store: Store::Memory,
};
const ALL: &[Contestant] = &[OURS, Tape, Drain];

const fn case(name: &'static str, title: &'static str, measurement: Measurement) -> Case {
    Case {
        name,
        title,
        measurement,
    }
}

const GZIP: Load = Load {
    compression: Compression::Gzip,
    ..BATCHES
};

const RANDOM: Load = Load {
    event_shape: EventShape::Random,
    ..BATCHES
};

/// All cases, in the order of the page.
pub const CASES: [Case; 22] = [
    case(
        "batches",
        "250 events of 998 B a request",
        Measurement::Throughput(BATCHES, ALL),
    ),
    case(
        "random",
        "250 events of 998 B a request, all values at random",
        Measurement::Throughput(RANDOM, ALL),
    ),
    case(
        "small",
        "1 000 events of 136 B a request",
        Measurement::Throughput(load(1_000, 136, 16), ALL),
    ),
    case(
        "tens",
        "10 events of 998 B a request",
        Measurement::Throughput(load(10, 998, 128), ALL),
    ),
    case(
        "singles",
        "1 event of 998 B a request",
        Measurement::Throughput(load(1, 998, 512), ALL),
    ),
    case(
        "gzip",
        "250 events of 998 B a request, gzip",
        Measurement::Throughput(GZIP, &[OURS, Drain]),
    ),
    case(
        "workers",
        "Two cores beside one, 250 events of 998 B a request",
        Measurement::Throughput(load(250, 998, 32), &[OURS_TWICE, OURS]),
    ),
    case(
        "disk",
        "The real disk beside bare append and fdatasync",
        Measurement::Own(disk::measure),
    ),
    case(
        "latency",
        "Latency at half of the highest rate, open loop, while events are shipped",
        Measurement::Own(latency::measure),
    ),
    case(
        "shipping",
        "CPU time of shipping to ClickHouse, by what it goes to",
        Measurement::Own(shipping::measure),
    ),
    case(
        "visible",
        "From the request until it can be queried",
        Measurement::Own(visible::measure),
    ),
    case(
        "exports",
        "An export of all rows, beside the SELECT that it is made of",
        Measurement::Own(exports::measure),
    ),
    case(
        "overload",
        "Three times the highest rate, open loop",
        Measurement::Own(overload::measure),
    ),
    case(
        "neighbour",
        "Latency of a project beside one that sends a hundred times as much",
        Measurement::Own(neighbour::measure),
    ),
    case(
        "memory",
        "Resident memory",
        Measurement::Own(memory::measure),
    ),
    case(
        "soak",
        "Resident memory over a long load",
        Measurement::Own(soak::measure),
    ),
    case(
        "flood",
        "Ten times the highest rate for a long time, while events are shipped",
        Measurement::Own(flood::measure),
    ),
    case(
        "connections",
        "Cost by connections",
        Measurement::Growth(GrowthAxis::Connections),
    ),
    case(
        "projects",
        "Cost by projects",
        Measurement::Growth(GrowthAxis::Projects),
    ),
    case(
        "event-bytes",
        "Cost by bytes of an event",
        Measurement::Growth(GrowthAxis::EventBytes),
    ),
    case(
        "batch-events",
        "Cost by events of a request",
        Measurement::Growth(GrowthAxis::BatchEvents),
    ),
    case(
        "batch-events-small",
        "Cost by events of a request, events of 136 B",
        Measurement::Growth(GrowthAxis::BatchEventsSmall),
    ),
];

impl Case {
    /// Measures the case.
    ///
    /// # Errors
    /// A server does not start or a run fails.
    pub fn measure(self, bench: &mut Bench<'_>) -> Result<Findings> {
        match self.measurement {
            Measurement::Throughput(load, contestants) => {
                throughput::measure(bench, load, contestants)
            }
            Measurement::Growth(axis) => growth::measure(bench, axis),
            Measurement::Own(measure) => measure(bench),
        }
    }
}
