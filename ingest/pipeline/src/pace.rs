//! Whether rows are compressed on their way to the log.
//!
//! Compressing costs more than all the parsing: about 1.2 ns a byte, against 0.1 ns for a block
//! that holds the rows as they are. It pays where the disk is slower than the compressor, as it
//! leaves the disk a quarter of the bytes and the core would only wait. So each lane measures how
//! fast its disk takes groups, and a lane whose disk is fast stores its rows as they are, until
//! its log fills up: then room is what counts.

use millrace_log::Usage;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes a second below which the disk is what requests wait for. A compressor makes 0.8 GB/s and
/// leaves a quarter: storing takes as long as compressing and storing at 0.75 of its speed.
const FAST_BYTES_PER_SECOND: u64 = 600_000_000;
/// Percent of the log's room past which rows are compressed whatever the disk.
const ROOM_PERCENT_MAX: u64 = 25;
/// A new measurement counts for one part in so many.
const SMOOTHING: u64 = 8;

/// Whether rows are compressed on their way to the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Where the disk is slow, and where the log fills up.
    #[default]
    WhereItPays,
    /// Never, for those who count instructions: what pays depends on the time a sync takes.
    Never,
}

/// How fast a lane's disk takes what is committed.
#[derive(Debug, Default)]
pub struct Pace {
    compression: Compression,
    /// Bytes a second, smoothed; 0 until something was measured.
    bytes_per_second: AtomicU64,
}

impl Pace {
    /// Of a lane of which nothing was measured yet.
    pub fn new(compression: Compression) -> Self {
        Self {
            compression,
            ..Self::default()
        }
    }

    /// Learns from a group whose sync took so long. The append is left out: it only fills the
    /// page cache, and on a busy core its time is mostly that of others.
    pub fn committed(&self, bytes: u64, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let now = u128::from(bytes) * 1_000_000_000 / u128::from(nanos);
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        let before = self.bytes_per_second.load(Ordering::Relaxed);
        let smoothed = before - before / SMOOTHING + now / SMOOTHING;
        self.bytes_per_second.store(smoothed, Ordering::Relaxed);
    }

    /// Whether rows should be compressed now.
    pub fn compresses(&self, usage: Usage) -> bool {
        let is_slow = self.bytes_per_second.load(Ordering::Relaxed) < FAST_BYTES_PER_SECOND;
        let pays = is_slow || usage.bytes_used >= usage.bytes_max / 100 * ROOM_PERCENT_MAX;
        pays && self.compression == Compression::WhereItPays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Usage = Usage {
        bytes_used: 0,
        bytes_max: 1_000,
    };

    fn after(groups: u32, bytes: u64, took: Duration) -> Pace {
        let pace = Pace::default();
        for _ in 0..groups {
            pace.committed(bytes, took);
        }
        pace
    }

    #[test]
    fn rows_are_compressed_where_the_disk_is_what_one_waits_for() {
        let table = [
            ("nothing measured", 0, 0, 1, true),
            ("a disk that syncs in 2 ms", 100, 250_000, 2_000, true),
            ("memory", 100, 250_000, 150, false),
            ("one lucky group", 1, 250_000, 150, true),
            ("single events, synced at once", 100, 1_000, 20, true),
        ];
        for (case, groups, bytes, micros, compresses) in table {
            let pace = after(groups, bytes, Duration::from_micros(micros));
            assert_eq!(pace.compresses(EMPTY), compresses, "{case}");
        }
    }

    #[test]
    fn a_filling_log_is_compressed_whatever_the_disk() {
        let pace = after(100, 250_000, Duration::from_micros(150));
        assert!(!pace.compresses(Usage {
            bytes_used: 249,
            bytes_max: 1_000
        }));
        assert!(pace.compresses(Usage {
            bytes_used: 250,
            bytes_max: 1_000
        }));
    }

    #[test]
    fn no_time_and_no_bytes_are_measurements_too() {
        let pace = after(100, u64::MAX, Duration::ZERO);
        assert!(!pace.compresses(EMPTY));
        pace.committed(0, Duration::MAX);
    }
}
