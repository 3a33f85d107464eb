//! Load generator and verifier for analytics capture endpoints.
//!
//! It speaks HTTP to the server under test and SQL (ClickHouse's HTTP interface) to where the
//! events end up, and imports nothing of the server, so that it cannot share its mistakes.
//!
//! Layout, in the order in which a run passes through it:
//!
//! - [`plan`]: what to send, where and how fast.
//! - [`keys`]: to which projects.
//! - [`shape`]: what one event looks like.
//! - [`event_id`]: which event it is; the uuid says run, connection, batch and index.
//! - [`request`]: one connection's request, built once and patched in place.
//! - [`schedule`]: when to send; closed or open loop.
//! - [`peer`]: the other end, plain or with [`tls`].
//! - [`connection`]: one connection's socket, and [`response`]: what comes back on it.
//! - [`tally`]: what came of it, counted per thread, and [`series`]: over time.
//! - [`run`](mod@run): threads, warm-up, window; makes a [`Summary`].
//! - [`ledger`]: which batches were acknowledged, on file.
//! - [`verify`](mod@verify): whether ClickHouse has exactly those, through [`clickhouse`].
//! - [`max_rate`], [`compare`], [`report`], [`html`]: what is made of summaries.
//! - [`command_line`]: how a run was asked for.
//! - [`proxy`]: harm done to requests between a server and its ClickHouse.
//! - [`yardstick`]: servers that do as little as possible, to compare with.
//! - [`mod@suite`]: everything that is claimed of the server's speed, measured in one go.
//! - [`mod@attack`]: the server attacked with all that is known, beside a tenant who works.
//! - [`mod@crash`]: the server killed again and again, and nothing acknowledged lost or doubled.
//! - [`child`]: a process under test, and [`metrics`]: what it says of itself.
//! - [`organization`]: asks the organization API.
//! - [`namespace`]: a program run where its mounts and processes go with it.
//! - [`process`]: CPU time and memory of the processes involved, [`resources`]: over time, and
//!   [`threads`]: thread by thread.
#![forbid(unsafe_code)]

pub mod attack;
pub mod child;
pub mod clickhouse;
pub mod command_line;
pub mod compare;
pub mod connection;
pub mod crash;
pub mod credentials;
pub mod event_id;
pub mod html;
pub mod keys;
pub mod ledger;
pub mod max_rate;
pub mod metrics;
pub mod namespace;
pub mod organization;
pub mod peer;
pub mod plan;
pub mod process;
pub mod proxy;
pub mod report;
pub mod request;
pub mod resources;
pub mod response;
pub mod run;
pub mod schedule;
pub mod series;
pub mod shape;
pub mod suite;
pub mod summary;
pub mod tally;
pub mod threads;
pub mod tls;
pub mod verify;
pub mod wall_clock;
pub mod yardstick;

pub use plan::{Compression, Mode, Plan};
pub use run::{Progress, Stop, run, run_observed};
pub use summary::Summary;
pub use verify::{Verdict, verify};
