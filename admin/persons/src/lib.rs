//! Persons and groups: updates from events, applied to the catalog and copied to ClickHouse.
//!
//! Every process with the organization API has a [`Worker`]; the one that holds the lease works. It
//! reads updates from ClickHouse, to which the log was shipped, in the order of arrival, and a
//! project with more than its share apart from the others. It reads up to the watermark that all
//! nodes have passed: nothing arrives any more before it, so neither the number of nodes nor the
//! moment of a crash makes a difference. It applies the updates to the catalog, and copies what
//! changed to ClickHouse.
//!
//! | Killed between | Then |
//! |---|---|
//! | reading and the commit | the catalog is where it was; the same updates are read again |
//! | the commit and the copy | the catalog knows what is not copied; that is copied first |
//! | the copy and its record | the same rows are copied again |
//!
//! | Module | Holds |
//! |---|---|
//! | `worker` | the rounds: projects without a backlog first, then backlogs |
//! | `state` | persons and groups in the catalog, and how events change them |
//! | `batch` | the updates of a round, a share for each project and organization |
//! | `failure` | failures of a round |
//! | `leader` | the lease of the process that works |
//! | `update_reader` | reads updates from ClickHouse |
//! | `round_size` | the number of updates in a part of a round |
//! | `replicate` | copies changes of the catalog to ClickHouse |
//! | `target` | has all copied again to a ClickHouse that lacks copies |
//! | `retention` | drops updates that were applied long ago |
//! | `metrics` | metrics for Prometheus |

#![forbid(unsafe_code)]

mod batch;
mod failure;
mod leader;
mod metrics;
mod replicate;
mod retention;
mod round_size;
mod state;
mod target;
mod update_reader;
mod worker;

pub use failure::Failure;
pub use state::{
    AppliedUpdates, ApplyOptions, ChangedGroup, ChangedId, ChangedPerson, GrowthKind, GrowthLimits,
    LimitedProject, PersonBacklog, PersonProgress, PersonStore, PersonUpdate, RefusedMerge,
    TooLargeUpdate, UpdatePosition, UpdateStats,
};
pub use worker::{LeaseRenewerFailed, RoundOutcome, Worker, WorkerOptions};
