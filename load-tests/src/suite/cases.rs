//! Table of the suite's cases.

use super::bench::Bench;
use super::growth::{self, GrowthAxis};
use super::load::{BATCHES, Load, load};
use super::outcome::Outcome;
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
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Servers side by side; the first is compared with the others.
    Throughput(Load, &'static [Contestant]),
    Disk,
    Latency,
    Shipping,
    Visible,
    Exports,
    Overload,
    Neighbour,
    Memory,
    Soak,
    Flood,
    Growth(GrowthAxis),
}

const OURS: Contestant = Contestant::OURS;
const OURS_TWICE: Contestant = Ours {
    workers: 2,
    store: Store::Memory,
};
const ALL: &[Contestant] = &[OURS, Tape, Drain];

const fn case(name: &'static str, title: &'static str, kind: Kind) -> Case {
    Case { name, title, kind }
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
        Kind::Throughput(BATCHES, ALL),
    ),
    case(
        "random",
        "250 events of 998 B a request, all values at random",
        Kind::Throughput(RANDOM, ALL),
    ),
    case(
        "small",
        "1 000 events of 136 B a request",
        Kind::Throughput(load(1_000, 136, 16), ALL),
    ),
    case(
        "tens",
        "10 events of 998 B a request",
        Kind::Throughput(load(10, 998, 128), ALL),
    ),
    case(
        "singles",
        "1 event of 998 B a request",
        Kind::Throughput(load(1, 998, 512), ALL),
    ),
    case(
        "gzip",
        "250 events of 998 B a request, gzip",
        Kind::Throughput(GZIP, &[OURS, Drain]),
    ),
    case(
        "workers",
        "Two cores beside one, 250 events of 998 B a request",
        Kind::Throughput(load(250, 998, 32), &[OURS_TWICE, OURS]),
    ),
    case(
        "disk",
        "The real disk beside bare append and fdatasync",
        Kind::Disk,
    ),
    case(
        "latency",
        "Latency at half of the highest rate, open loop, while events are shipped",
        Kind::Latency,
    ),
    case(
        "shipping",
        "CPU time of shipping to ClickHouse, by what it goes to",
        Kind::Shipping,
    ),
    case(
        "visible",
        "From the request until it can be queried",
        Kind::Visible,
    ),
    case(
        "exports",
        "An export of all rows, beside the SELECT that it is made of",
        Kind::Exports,
    ),
    case(
        "overload",
        "Three times the highest rate, open loop",
        Kind::Overload,
    ),
    case(
        "neighbour",
        "Latency of a project beside one that sends a hundred times as much",
        Kind::Neighbour,
    ),
    case("memory", "Resident memory", Kind::Memory),
    case("soak", "Resident memory over a long load", Kind::Soak),
    case(
        "flood",
        "Ten times the highest rate for a long time, while events are shipped",
        Kind::Flood,
    ),
    case(
        "connections",
        "Cost by connections",
        Kind::Growth(GrowthAxis::Connections),
    ),
    case(
        "projects",
        "Cost by projects",
        Kind::Growth(GrowthAxis::Projects),
    ),
    case(
        "event-bytes",
        "Cost by bytes of an event",
        Kind::Growth(GrowthAxis::EventBytes),
    ),
    case(
        "batch-events",
        "Cost by events of a request",
        Kind::Growth(GrowthAxis::BatchEvents),
    ),
    case(
        "batch-events-small",
        "Cost by events of a request, events of 136 B",
        Kind::Growth(GrowthAxis::BatchEventsSmall),
    ),
];

impl Case {
    /// Measures the case.
    ///
    /// # Errors
    /// A server does not start or a run fails.
    pub fn run(self, bench: &mut Bench<'_>) -> Result<Outcome> {
        let mut outcome = match self.kind {
            Kind::Throughput(load, contestants) => throughput::measure(bench, load, contestants),
            Kind::Disk => disk::measure(bench),
            Kind::Latency => latency::measure(bench),
            Kind::Shipping => shipping::measure(bench),
            Kind::Visible => visible::measure(bench),
            Kind::Exports => exports::measure(bench),
            Kind::Overload => overload::measure(bench),
            Kind::Neighbour => neighbour::measure(bench),
            Kind::Memory => memory::measure(bench),
            Kind::Soak => soak::measure(bench),
            Kind::Flood => flood::measure(bench),
            Kind::Growth(axis) => growth::measure(bench, axis),
        }?;
        self.name.clone_into(&mut outcome.name);
        self.title.clone_into(&mut outcome.title);
        Ok(outcome)
    }
}
