//! Cache of project keys: which project a key belongs to, without waiting where that is possible.
//!
//! Answers from the catalog are kept: that a key is a project's for [`answers::FOUND_MICROS`], that
//! it is nobody's for [`answers::UNKNOWN_MICROS`]. Both are stale earlier if a key changed: if this
//! process changed it, before that is answered ([`Keys::catch_up`]); if another did, within
//! [`POLL_PERIOD`](changes::POLL_PERIOD) and one query ([`Keys::watch_changes`]). Staleness is a
//! generation number: an answer counts only while the generation in which its look-up *began*
//! lasts, so that no look-up which overlaps a change can bring the old answer back.
//!
//! While the catalog cannot be reached, or has more to do than it can, keys that were found before
//! go on working past their age, except those that were seen to be revoked, and those that a change
//! may concern which could not be looked at yet ([`answers::StaleKeys`]); all others get
//! [`CatalogUnavailable`].
//!
//! Memory is bounded whatever clients send. Found keys are real projects; keys of nobody have a
//! cache of their own, so that garbage cannot push projects out; look-ups under way are counted,
//! and keys that were found before have places of their own. Keys of our form with a wrong checksum
//! are refused without a look-up, except those that were brought in from elsewhere, whose list is
//! kept here.

mod answers;
mod cache;
mod changes;
mod first_events;
mod lookup;
mod memo;

pub use answers::CatalogUnavailable;
pub use cache::Keys;

#[cfg(test)]
mod tests;
