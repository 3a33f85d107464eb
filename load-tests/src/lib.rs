//! Load generator and verifier for analytics capture endpoints.
//!
//! The crate speaks HTTP to the server under test and SQL to ClickHouse's HTTP interface, where the
//! events end up. It imports nothing of the server, so that the two cannot share a mistake.
//!
//! Modules, in the order in which a run passes through them:
//!
//! - [`plan`]: content, target and rate of a run.
//! - [`keys`]: the projects that it sends to, and [`api`]: the form in which it does.
//! - [`mix`]: sizes of requests, [`event_shape`]: size and shape of one event, and [`own_body`]:
//!   bodies of users.
//! - [`event_id`]: identity of an event; its uuid encodes run, connection, batch and index.
//! - [`request`]: one connection's request, built once and patched in place.
//! - [`schedule`]: times of the requests, in a closed or open loop ([`mode`]), whose rate may
//!   change in [`stages`].
//! - [`peer`]: the server to connect to, plain or with [`tls`].
//! - [`connection`]: one connection's socket, and [`response`]: the parser of its responses, with
//!   [`chunked`] bodies.
//! - [`worker_stats`]: statistics of each thread, [`series`]: their course over time, and [`hdr`]:
//!   their histograms as a log.
//! - [`run`](mod@run): threads, warm-up, window; makes a [`Summary`].
//! - [`ledger`]: acknowledged batches, on file.
//! - [`verify`](mod@verify): comparison of a ledger with ClickHouse, through [`clickhouse`].
//! - [`max_rate`], [`compare`], [`mod@join`], [`fail_if`], [`report`], [`html`], [`series_csv`],
//!   [`prometheus`]: uses of summaries.
//! - [`command_line`]: the command line of a run, for its report.
//! - [`proxy`]: injects faults between a server and its ClickHouse.
//! - [`baseline`]: servers that do as little as possible, to compare with.
//! - [`mod@suite`]: measures every claim about the server's speed.
//! - [`mod@attack`]: attacks the server beside a tenant that works normally.
//! - [`mod@crash`]: kills the server again and again and verifies the acknowledged events.
//! - [`child`]: a process under test, [`metrics`]: its metrics, [`mod@runtime`]: our own runtimes.
//! - [`organization`]: client of the organization API.
//! - [`namespace`]: runs a program in namespaces, so that its mounts and processes end with it.
//! - [`process`]: CPU time and memory of processes, [`resources`]: over time, and [`threads`]: by
//!   thread.
#![forbid(unsafe_code)]

pub mod api;
pub mod attack;
pub mod baseline;
pub mod child;
pub mod chunked;
pub mod clickhouse;
pub mod command_line;
pub mod compare;
pub mod connection;
pub mod crash;
pub mod credentials;
pub mod digits;
pub mod event_id;
pub mod event_shape;
pub mod fail_if;
pub mod hdr;
pub mod html;
pub mod join;
pub mod keys;
pub mod ledger;
pub mod max_rate;
pub mod metrics;
pub mod mix;
pub mod mode;
pub mod namespace;
pub mod organization;
pub mod own_body;
pub mod peer;
pub mod plan;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod report;
pub mod request;
pub mod resources;
pub mod response;
pub mod run;
pub mod runtime;
pub mod schedule;
pub mod series;
pub mod series_csv;
pub mod stages;
pub mod stop;
pub mod suite;
pub mod summary;
pub mod target;
pub mod threads;
pub mod tls;
pub mod verify;
pub mod wall_clock;
pub mod worker_stats;

pub use plan::{Compression, Mode, Plan};
pub use run::{Progress, run, run_observed};
pub use stop::Stop;
pub use summary::Summary;
pub use verify::{VerifyReport, verify, verify_and_tell};
