//! Retention of a lane's log: segments are released once they are shipped and nobody wants to read
//! them again.

use millrace_log::{LogHandle, Position, ReleaseError};
use std::sync::{Mutex, PoisonError};

/// Position behind every possible frame.
const END: Position = Position {
    segment: u64::MAX,
    offset: u64::MAX,
};

/// Position up to which a lane's log may be released. The shipper reports below which position it
/// needs nothing any more; the count of imported events may need frames longer.
#[derive(Debug)]
pub struct Retention(Mutex<Bounds>);

#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Everything below is shipped, and a synced checkpoint says so.
    settled: Position,
    /// Everything from here on is kept, shipped or not.
    kept_from: Position,
}

impl Default for Retention {
    fn default() -> Self {
        Self(Mutex::new(Bounds {
            settled: Position::FIRST,
            kept_from: END,
        }))
    }
}

impl Retention {
    /// Records that the shipper needs nothing below `low` any more, and releases segments. Blocks.
    ///
    /// # Errors
    /// As [`LogHandle::release`].
    pub(crate) fn settle(&self, log: &LogHandle, low: Position) -> Result<(), ReleaseError> {
        self.release(log, |bounds| bounds.settled = low)
    }

    /// Keeps everything from `from` on, and nothing below. Blocks.
    ///
    /// # Errors
    /// As [`LogHandle::release`].
    pub(crate) fn keep_from(&self, log: &LogHandle, from: Position) -> Result<(), ReleaseError> {
        self.release(log, |bounds| bounds.kept_from = from)
    }

    fn release(&self, log: &LogHandle, change: impl Fn(&mut Bounds)) -> Result<(), ReleaseError> {
        let below = {
            let mut bounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut bounds);
            bounds.settled.min(bounds.kept_from)
        };
        if below > Position::FIRST {
            log.release(below)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_blocks::store_into;
    use millrace_log::fs::DiskFs;
    use millrace_log::{Log, LogOptions, Section, SectionHeader};
    use std::sync::Arc;

    /// A log with a segment for each frame, and the frames' ends.
    fn log(dir: &std::path::Path) -> (Log, Vec<Position>) {
        let options = LogOptions {
            dir: dir.to_owned(),
            segment_bytes: 1 << 16,
            bytes_max: 1 << 30,
        };
        let (mut log, _) = Log::open(options, Arc::new(DiskFs)).unwrap();
        let mut blocks = Vec::new();
        store_into(&[7; 60_000], &mut blocks);
        let header = SectionHeader {
            insert_target: "t(a)".to_owned(),
            month: 202_611,
            rows: 1,
            uncompressed_bytes: 60_000,
            keys: vec![[0; 24]],
        };
        let mut append = || {
            let section = Section {
                header: &header,
                blocks: &blocks,
            };
            log.append(&[section]).unwrap();
            log.sync().unwrap()
        };
        let ends = (0..6).map(|_| append()).collect();
        (log, ends)
    }

    #[test]
    fn only_segments_that_are_settled_and_not_kept_are_released() {
        let dir = tempfile::tempdir().unwrap();
        let (log, ends) = log(dir.path());
        let (handle, retention) = (log.handle(), Retention::default());
        let first = handle.start().segment;
        retention.keep_from(&handle, Position::FIRST).unwrap();
        retention.settle(&handle, ends[4]).unwrap();
        assert_eq!(handle.start().segment, first, "all is kept");
        retention.keep_from(&handle, ends[1]).unwrap();
        assert_eq!(handle.start().segment, ends[1].segment + 1);
        retention.keep_from(&handle, END).unwrap();
        assert_eq!(handle.start().segment, ends[4].segment + 1);
        let nobody_keeps = Retention::default();
        nobody_keeps.settle(&handle, ends[5]).unwrap();
        assert_eq!(handle.start().segment, ends[5].segment);
    }
}
