//! Fakes of services that cannot run here: they answer as the vendors' public documents say, and
//! carry out our statements as far as needed to show that rows arrive once. They prove what is
//! sent, and that lost answers are handled; not that the services understand it.
//!
//! The keys in `keys` were created for these tests.

mod big_query;
mod databricks;
mod endless_jobs;
mod keys;
mod merge;
mod server;
mod snowflake;
mod sql;
