//! Services that cannot run here: fakes that answer as the vendors' public documents say, and
//! carry out as much of our statements as shows that rows arrive once. What they prove is what we
//! send, and that we go on when answers are lost; not that the services understand it.
//!
//! The keys in `keys` were made for these tests.

mod big_query;
mod databricks;
mod keys;
mod merge;
mod server;
mod snowflake;
mod sql;
