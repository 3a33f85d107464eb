//! Persons and groups: what events say of them, applied to the catalog, copied to ClickHouse.
//!
//! Every process with the organization API has a [`Worker`]; the one that holds the lease works. It
//! reads what events say from ClickHouse, where the log has brought it, in the order of arrival, a project
//! with more than its share apart from the others, up to the watermark that all nodes have passed: nothing comes any more before what it reads, so
//! neither the number of nodes nor the moment of a crash makes a difference. It applies that to the
//! catalog, and copies what changed to ClickHouse.
//!
//! | Killed between | Then |
//! |---|---|
//! | reading and the commit | the catalog is where it was; the same is read again |
//! | the commit and the copy | the catalog knows what is not copied; it is copied first |
//! | the copy and the note of it | it is copied again, as the same rows |
//!
//! | Module | Holds |
//! |---|---|
//! | `worker` | one round after the other |
//! | `gathering` | what a round applies, of each project its share |
//! | `leader` | the lease |
//! | `reading` | what events say, from ClickHouse |
//! | `copying` | what changed, to ClickHouse |
//! | `forgetting` | what events said long ago |
//! | `metrics` | how it goes |

#![forbid(unsafe_code)]

mod copying;
mod forgetting;
mod gathering;
mod leader;
mod metrics;
mod reading;
mod worker;

pub use worker::{Failure, LeaseKeeperFailed, Round, Worker, WorkerOptions};
