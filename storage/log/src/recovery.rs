//! Recovery: opening a log reads, checks and makes durable all that the last process left.
//!
//! Every byte of every segment is checked. Then:
//!
//! * Behind the last sound frame of the *last* segment, anything but zeros is a **torn tail**: an
//!   append that was never synced, so it was never acknowledged. It is cut. (A last frame that was
//!   synced and has rotted since looks the same; no format can tell. It is reported.)
//! * Anything unsound with a sound frame behind it, in the segment or in a later one, is a
//!   **damaged middle**: it was synced once. It is copied to `quarantine/`, reported, and
//!   passed over by readers.
//! * Bytes that the disk cannot read are damaged as well, at the end of the last segment, too: they
//!   may have been synced.
//! * Frames that are missing without a trace are detected by the sequences and reported as a gap.
//!
//! A panic is no damage: it goes on, with the name of the file that was read, as each start would
//! meet it again.
//!
//! A segment file that holds no frame and does not continue the one before is left by a full disk
//! while it was made, or by a power cut while it was unlinked. It says nothing about the one
//! before, which may have been written on, and is removed, whatever bytes it has.
//!
//! The last segment is then written anew ([`rewrite`]), which makes its frames durable. Segments
//! before it were synced before their successor was made. No earlier segment is appended to again.

use crate::bad_sectors::TolerantFile;
use crate::checkpoint::{self, HighWater};
use crate::fail_point::{FailPoint, pass};
use crate::frame::FRAME_BYTES_MIN;
use crate::fs::{File, Fs, is_out_of_space, make_dir};
use crate::panic_text::panic_again;
use crate::quarantine;
use crate::report::{Gap, Quarantined, Recovery, TornTail};
use crate::reserve::Reserve;
use crate::rewrite;
use crate::scan::{self, SegmentScan};
use crate::segment::{self, HeaderError, NUMBER_MAX, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::sequences::Sequences;
use crate::shared::{Segment, Shared, State};
use crate::{LogOptions, OpenError, Position};
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK_NAME: &str = "lock";

/// An opened log: the state that the writer starts from.
pub(crate) struct OpenedLog {
    pub shared: Shared,
    pub segment_bytes: u64,
    pub sequence: u64,
    pub sequence_high_water: u64,
    pub recovery: Recovery,
}

/// Converts an I/O error, with the action that failed and its path.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io {
        action,
        path,
        source,
    }
}

pub(crate) fn open(options: LogOptions, fs: Arc<dyn Fs>) -> Result<OpenedLog, OpenError> {
    let LogOptions {
        dir,
        segment_bytes,
        bytes_max,
    } = options;
    let segment_bytes = segment_bytes.min(bytes_max / 4);
    if segment_bytes < SEGMENT_HEADER_BYTES + FRAME_BYTES_MIN {
        return Err(OpenError::Options("no space for even one frame"));
    }
    make_dir(&*fs, &dir).map_err(failed("make", &dir))?;
    let path = dir.join(LOCK_NAME);
    let lock = fs.lock(&path).map_err(failed("lock", &path))?;
    let lock = lock.ok_or(OpenError::Locked { path })?;
    let (high_water, checkpoint_damaged) = checkpoint::load_high_water(&*fs, &dir)?;
    let mut found = Findings::new(&*fs, &dir, high_water);
    found.recovery.checkpoint_damaged = checkpoint_damaged;
    let numbers = list_segments(&*fs, &dir)?;
    for (nth, number) in numbers.iter().enumerate() {
        let next = numbers.get(nth + 1).copied();
        let added = catch_unwind(AssertUnwindSafe(|| found.add(*number, next)));
        added.unwrap_or_else(|panic| panic_again(&found.path_of(*number), &*panic))?;
    }
    pass(FailPoint::RecoveryRead);
    found.finish_last()?;
    pass(FailPoint::RecoveryRenamed);
    found.remove_unused()?;
    let reserve = Reserve::of(&*fs, &dir).map_err(failed("reserve space in", &dir))?;
    fs.sync_dir(&dir).map_err(failed("sync", &dir))?;
    let state = found.state();
    let Findings {
        recovery,
        sequence,
        sequence_high_water,
        ..
    } = found;
    Ok(OpenedLog {
        shared: Shared::new(fs, dir, bytes_max, state, reserve, lock),
        segment_bytes,
        sequence,
        sequence_high_water,
        recovery,
    })
}

/// Lists the numbers of the segments in a directory, rising.
pub(crate) fn list_segments(fs: &dyn Fs, dir: &Path) -> Result<Vec<u64>, OpenError> {
    let names = fs.list(dir).map_err(failed("list", dir))?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| segment::number_of(name))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Findings so far, segment by segment.
struct Findings<'a> {
    fs: &'a dyn Fs,
    dir: &'a Path,
    high_water: HighWater,
    segments: BTreeMap<u64, Segment>,
    recovery: Recovery,
    /// Last sequence seen.
    sequence: u64,
    sequence_high_water: u64,
    end: Position,
    last: Option<LastSegment>,
    /// Segments that were made and never used.
    unused: Vec<u64>,
}

/// Segment read last: damage at its end is a torn tail only if no other follows.
struct LastSegment {
    number: u64,
    file: Arc<TolerantFile>,
    scan: SegmentScan,
    file_bytes: u64,
    /// Last sequence before the segment.
    sequence_before: u64,
}

impl<'a> Findings<'a> {
    fn new(fs: &'a dyn Fs, dir: &'a Path, high_water: HighWater) -> Self {
        Self {
            fs,
            dir,
            high_water,
            segments: BTreeMap::new(),
            recovery: Recovery::default(),
            sequence: 0,
            sequence_high_water: 0,
            end: Position::FIRST,
            last: None,
            unused: Vec::new(),
        }
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.dir.join(segment::file_name(number))
    }

    /// Reads the next segment; `next` is the one behind it.
    fn add(&mut self, number: u64, next: Option<u64>) -> Result<(), OpenError> {
        let path = self.path_of(number);
        let file = self.fs.open(&path).map_err(failed("open", &path))?;
        let file = TolerantFile::new(file);
        let mut sequences = Sequences::default();
        let salt_elsewhere = || scan::salt_in_next(self.fs, self.dir, number, next);
        let scan = scan::scan(&*file, number, &salt_elsewhere, &mut |frame| {
            sequences.record(frame.sequence, frame.end);
        })
        .map_err(failed("read", &path))?;
        if let Err(HeaderError::Version(version)) = scan.header {
            return Err(OpenError::of_version(path, version));
        }
        if self.is_unused(&scan) {
            self.unused.push(number);
            return Ok(());
        }
        if let Some(last) = self.last.take() {
            self.end_is_damage(&last)?;
        }
        let sequence_before = self.sequence;
        self.check_sequences(number, &scan, sequences);
        for damage in &scan.damaged {
            self.quarantine(number, &*file, damage)?;
        }
        let file_bytes = file.len().map_err(failed("read", &path))?;
        self.segments.insert(number, segment_of(&scan, scan.end));
        self.recovery.segments += 1;
        self.recovery.frames += scan.frames;
        self.recovery.rows += scan.rows;
        self.last = Some(LastSegment {
            number,
            file,
            scan,
            file_bytes,
            sequence_before,
        });
        Ok(())
    }

    /// Returns true if a segment behind another holds no frame and does not continue it.
    fn is_unused(&self, scan: &SegmentScan) -> bool {
        let tail = scan.tail.as_ref();
        let does_not_continue = match scan.header {
            // The one before was written on after this one was made: this one was never used.
            Ok(header) => header.sequence_before < self.sequence,
            // Bytes behind a damaged header may have been frames.
            Err(_) => tail.is_none_or(|tail| tail.bytes.end <= SEGMENT_HEADER_BYTES),
        };
        self.last.is_some() && scan.frames == 0 && does_not_continue
    }

    /// Unlinks segments that were never used.
    fn remove_unused(&self) -> Result<(), OpenError> {
        for &number in &self.unused {
            let path = self.path_of(number);
            match self.fs.unlink(&path) {
                // Stays unused; a segment of its number is made over it.
                Err(error) if is_out_of_space(&error) => {}
                unlinked => unlinked.map_err(failed("unlink", &path))?,
            }
        }
        Ok(())
    }

    /// Compares a segment's first sequence with the last one before, and notes its own gaps.
    fn check_sequences(&mut self, number: u64, scan: &SegmentScan, sequences: Sequences) {
        let first = self.recovery.segments == 0;
        // Without its header a segment does not tell which sequence was before it.
        if let Ok(header) = scan.header {
            let missing = header.sequence_before.saturating_sub(self.sequence);
            if !first && missing > 0 {
                self.recovery.gaps.push(Gap {
                    after: self.end,
                    frames: missing,
                });
            }
            self.sequence = self.sequence.max(header.sequence_before);
        }
        if let (Ok(header), Some(sequence)) = (scan.header, scan.sequence_first) {
            let missing = sequence.saturating_sub(header.sequence_high_water + 1);
            if missing > 0 {
                self.recovery.gaps.push(Gap {
                    after: Position {
                        segment: number,
                        offset: SEGMENT_HEADER_BYTES,
                    },
                    frames: missing,
                });
            }
        }
        self.recovery.gaps.extend(sequences.gaps);
        if let Some((sequence, end)) = sequences.last {
            self.sequence = sequence;
            self.end = end;
        }
        let high_water = scan.header.map_or(0, |header| header.sequence_high_water);
        self.sequence_high_water = self.sequence_high_water.max(self.sequence).max(high_water);
    }

    /// Quarantines a bad end of a segment that has a successor: its end was synced, so this is
    /// damage.
    fn end_is_damage(&mut self, last: &LastSegment) -> Result<(), OpenError> {
        if last.scan.header.is_err() {
            self.recovery.headers_damaged.push(last.number);
        }
        if let Some(tail) = &last.scan.tail {
            self.quarantine(last.number, &*last.file, tail)?;
            if let Some(segment) = self.segments.get_mut(&last.number) {
                segment.bytes = last.file_bytes;
            }
        }
        Ok(())
    }

    /// Cuts the torn tail and makes the frames before it durable.
    fn finish_last(&mut self) -> Result<(), OpenError> {
        if let Some(last) = self.last.take() {
            let position = Position {
                segment: last.number,
                offset: last.scan.end.max(SEGMENT_HEADER_BYTES),
            };
            if let Some(tail) = &last.scan.tail {
                // Unreadable bytes may have been synced, so they are damage, and no torn tail.
                let is_damage = last.file.has_failed(&tail.bytes);
                if is_damage {
                    self.quarantine(last.number, &*last.file, tail)?;
                }
                let bytes = tail.bytes.end - tail.bytes.start;
                // Sequences that may have been in there are not used again.
                let high_water = self.sequence_high_water + bytes / FRAME_BYTES_MIN + 1;
                self.sequence_high_water = high_water.min(NUMBER_MAX);
                self.recovery.cut = (!is_damage).then_some(TornTail {
                    position,
                    bytes,
                    reason: tail.reason,
                });
            }
            // A crash right after making a segment leaves an all-zero file.
            if last.scan.header.is_err() && (last.scan.frames > 0 || last.scan.tail.is_some()) {
                self.recovery.headers_damaged.push(last.number);
            }
            self.replace(&last, position)?;
        }
        // Everything up to the checkpoint's sequence was synced once.
        let missing = self.high_water.sequence.saturating_sub(self.sequence);
        if missing > 0 {
            self.recovery.gaps.push(Gap {
                after: self.end,
                frames: missing,
            });
            self.sequence = self.high_water.sequence;
            self.sequence_high_water = self.sequence_high_water.max(self.sequence);
        }
        Ok(())
    }

    /// Writes the last segment anew, up to `end`.
    fn replace(&mut self, last: &LastSegment, end: Position) -> Result<(), OpenError> {
        let scan = &last.scan;
        let header = scan.header.unwrap_or_else(|_| {
            let first = scan.sequence_first.map(|sequence| sequence - 1);
            SegmentHeader {
                number: last.number,
                salt: scan.salt.unwrap_or_else(|| self.fs.random()),
                sequence_before: last.sequence_before,
                sequence_high_water: first.unwrap_or(self.sequence_high_water),
                before: None,
            }
        });
        let path = self.path_of(last.number);
        rewrite::segment(self.fs, self.dir, &*last.file, &header, end.offset)
            .map_err(failed("rewrite", &path))?;
        let mut segment = segment_of(scan, end.offset);
        segment.salt = Some(header.salt);
        self.segments.insert(last.number, segment);
        self.end = end;
        Ok(())
    }

    fn quarantine(
        &mut self,
        number: u64,
        file: &dyn File,
        damage: &scan::Damage,
    ) -> Result<(), OpenError> {
        let copy = quarantine::keep(self.fs, self.dir, number, file, &damage.bytes);
        let at = |offset| Position {
            segment: number,
            offset,
        };
        self.recovery.quarantined.push(Quarantined {
            start: at(damage.bytes.start),
            end: at(damage.bytes.end),
            reason: damage.reason,
            copy: copy.map_err(failed("copy to quarantine from", &self.path_of(number)))?,
        });
        Ok(())
    }

    fn state(&mut self) -> State {
        let newest = self.segments.last_key_value().map(|(&number, _)| number);
        let synced = newest.and_then(|segment| {
            let offset = self.segments.get(&segment)?.end;
            Some(Position { segment, offset })
        });
        State {
            segments: std::mem::take(&mut self.segments),
            synced: synced.unwrap_or_default(),
            sequence_synced: self.sequence,
            released: Position::FIRST,
            segment_newest: newest.unwrap_or(0).max(self.high_water.segment),
        }
    }
}

fn segment_of(scan: &SegmentScan, end: u64) -> Segment {
    Segment {
        salt: scan.salt,
        end,
        bytes: end.max(SEGMENT_HEADER_BYTES),
        damaged: scan.damaged.iter().map(|d| d.bytes.clone()).collect(),
    }
}
