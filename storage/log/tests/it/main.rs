//! The log from outside, on a disk in memory that crashes and on the real one.
//!
//! Rules: a test's name is a sentence that holds; nothing sleeps; every directory is temporary;
//! crashes and failures happen by a seed or a count, never by chance.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod bad_sectors;
mod capacity;
mod checkpoint;
mod damage;
mod disk;
mod every_byte;
mod fixture;
mod frame;
mod model;
mod odd_disks;
mod recovery;
mod support;
