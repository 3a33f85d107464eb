//! The write-ahead log: keeps acknowledged events until ClickHouse has them.
//!
//! A log is a directory of segment files, owned by one process. One thread writes ([`Log`],
//! synchronous); others read what is durable, release what is shipped and keep a checkpoint
//! ([`LogHandle`], [`Reader`]). The log carries bytes: it knows neither rows nor a runtime.
//!
//! ```text
//! lock                        held by the process that has the directory open
//! 00000000000000000042.log    a segment; numbers only rise
//! checkpoint                  the shipper's, replaced atomically
//! reserve                     space for one checkpoint on a full disk
//! quarantine/                 damaged bytes found by a recovery
//! ```
//!
//! # Format
//!
//! All integers are little-endian, all checksums CRC-32 (IEEE). A segment starts with 64 bytes:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `MILLRLOG` |
//! | 8 | 2 | format version, 2; a program refuses a log with another one |
//! | 10 | 6 | zero |
//! | 16 | 8 | segment number, as in the name |
//! | 24 | 8 | salt: random, repeated in every frame |
//! | 32 | 8 | sequence of the last frame before this segment |
//! | 40 | 8 | highest sequence used up (higher than the field before only behind a cut) |
//! | 48 | 12 | zero |
//! | 60 | 4 | CRC of the 60 bytes before |
//!
//! Frames follow, each at a multiple of 8; behind the last one the preallocated file is zero.
//! A frame is one commit group:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `MFRM` |
//! | 4 | 2 | frame version, 2 |
//! | 6 | 2 | sections |
//! | 8 | 8 | salt of the segment |
//! | 16 | 8 | sequence: one more than the frame before |
//! | 24 | 4 | bytes of all section headers |
//! | 28 | 4 | zero |
//! | 32 | 8 | bytes of all blocks |
//! | 40 | 4 | CRC of all section headers |
//! | 44 | 4 | CRC of the 44 bytes before |
//! | 48 | … | section headers |
//! | | … | the sections' blocks, one run after the other |
//! | | 0–7 | zeros, so that the next frame is aligned |
//! | | 16 | commit trailer: sequence (8), CRC (4), magic `MEND` (4) |
//!
//! and a section header:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | month, `YYYYMM` |
//! | 4 | rows |
//! | 8 | bytes of the rows uncompressed |
//! | 8 | bytes of the blocks |
//! | 4 | CRC of the headers of the blocks: checksum, method and sizes, 25 bytes each |
//! | 2, 2 | bytes of the insert target, number of keys |
//! | … | insert target (UTF-8), keys of 24 bytes |
//!
//! The trailer's CRC covers both headers, the padding and the sequence, and through the CRCs in the
//! headers and the checksums in the blocks every byte. So each byte is summed once, the blocks of
//! one section can be checked alone, and a frame is committed exactly if its trailer fits.
//!
//! The blocks are ClickHouse's own compressed blocks ([`millrace_blocks`]): the bytes in the log
//! are the bytes that are shipped.
//!
//! **Why the salt.** Looking for the next sound frame behind damage, a recovery meets bytes that
//! clients sent. A client that could put a valid frame into an event's text would, on a damaged
//! disk, write rows for others; so a frame carries a number that only the file has.
//!
//! # Durability
//!
//! | After | a killed process | a power cut |
//! |---|---|---|
//! | [`Log::append`] | keeps the frame, if it was whole | may lose it |
//! | [`Log::sync`] | keeps it | keeps it |
//! | [`LogHandle::store_checkpoint`] | keeps it | keeps it |
//! | an error of either | keeps what was synced | keeps what was synced |
//!
//! A frame that was appended and not acknowledged may come back at the next start: recovery
//! decides, and every frame that it shows is durable. Nothing that failed is retried; see
//! [`Poisoned`].
//!
//! **Preallocation** is plain `fallocate`. On ext4, writing into zero-filled files instead makes a
//! sync of a 250 kB group a fifth to a quarter cheaper (0.24 instead of 0.30 ms) and one of 16 kB a
//! third (0.067 instead of 0.10 ms), but filling 64 MiB takes 70 to 100 ms and twice the writes,
//! more than the 250 groups that fit in get back; plain appending is the slowest.

#![forbid(unsafe_code)]

mod bad_sectors;
mod block_headers;
mod checkpoint;
mod error;
pub mod fail_point;
mod fields;
mod frame;
pub mod fs;
mod handle;
mod inspect;
mod log;
mod options;
pub mod panic_point;
mod panic_text;
mod position;
mod quarantine;
mod reader;
mod recovery;
mod report;
mod reserve;
mod rewrite;
mod scan;
mod section;
mod segment;
mod sequences;
mod shared;
#[cfg(feature = "testing")]
pub mod testing;

pub use error::{
    AppendError, CheckpointError, OpenError, Poisoned, ReadError, ReleaseError, SyncError,
};
pub use handle::LogHandle;
pub use inspect::{Inspection, SegmentReport, UnreadableKind, UnreadableRange, inspect};
pub use log::Log;
pub use options::{LogOptions, Usage};
pub use panic_text::panic_text;
pub use position::Position;
pub use reader::{Reader, Skipped};
pub use report::{Gap, Quarantined, Recovery, TornTail};
pub use reserve::CHECKPOINT_BYTES_MAX;
pub use section::{Frame, FrameSection, Section, SectionHeader};
