//! Opening a log: what the last process left is read, judged and made durable.
//!
//! Every byte of every segment is checked. Then:
//!
//! * Behind the last sound frame of the *last* segment, anything but zeros is a **torn tail**:
//!   an append that never was synced, so nobody was told it was stored. It is cut. (A last frame
//!   that was synced and has rotted since looks the same; no format can tell. It is reported.)
//! * Anything unsound with a sound frame behind it, in the segment or in a later one, is a
//!   **damaged middle**: it was synced once. It is copied to `quarantine/`, reported, and
//!   passed over by readers.
//! * What the disk cannot read is damaged as well, at the end of the last segment, too: it may have been synced.
//! * Frames that are missing without a trace show by the sequences and are reported as a gap.
//!
//! A segment file that holds no frame and does not continue the one before is what a want of room
//! leaves of making one, or a power cut of taking that back. It proves nothing of the one before,
//! which may have been written on, and goes, with whatever bytes a disk left in it.
//!
//! The last segment is then written anew ([`rewrite`]), which makes what was found durable.
//! Segments before it were synced before their successor was made. No segment of before is
//! appended to again.

use crate::bad_sectors::TolerantFile;
use crate::checkpoint::{self, Floor};
use crate::fail_point::{FailPoint, pass};
use crate::frame::{FRAME_BYTES_MIN, NUMBER_MAX};
use crate::fs::{File, Fs, make_dir};
use crate::log::is_want_of_room;
use crate::quarantine;
use crate::report::{Cut, Gap, Quarantined, Recovery};
use crate::reserve::Reserve;
use crate::rewrite;
use crate::scan::{self, SegmentScan};
use crate::segment::{self, HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::sequences::Sequences;
use crate::shared::{Segment, Shared, State};
use crate::{LogOptions, OpenError, Position};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK_NAME: &str = "lock";

/// What the writer starts from.
pub(crate) struct Opened {
    pub shared: Shared,
    pub segment_bytes: u64,
    pub sequence: u64,
    pub sequence_floor: u64,
    pub recovery: Recovery,
}

/// An I/O error with what was tried on which path.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io {
        action,
        path,
        source,
    }
}

pub(crate) fn open(options: LogOptions, fs: Arc<dyn Fs>) -> Result<Opened, OpenError> {
    let LogOptions {
        dir,
        segment_bytes,
        bytes_max,
    } = options;
    let segment_bytes = segment_bytes.min(bytes_max / 4);
    if segment_bytes < SEGMENT_HEADER_BYTES + FRAME_BYTES_MIN {
        return Err(OpenError::Options("no room for even one frame"));
    }
    make_dir(&*fs, &dir).map_err(failed("make", &dir))?;
    let path = dir.join(LOCK_NAME);
    let lock = fs.lock(&path).map_err(failed("lock", &path))?;
    let lock = lock.ok_or(OpenError::Locked { path })?;
    let (floor, checkpoint_damaged) = checkpoint::load_floor(&*fs, &dir)?;
    let mut found = Found::new(&*fs, &dir, floor);
    found.recovery.checkpoint_damaged = checkpoint_damaged;
    for number in list_segments(&*fs, &dir)? {
        found.add(number)?;
    }
    pass(FailPoint::RecoveryRead);
    found.finish_last()?;
    pass(FailPoint::RecoveryRenamed);
    found.remove_unused()?;
    let reserve = Reserve::of(&*fs, &dir).map_err(failed("set room aside in", &dir))?;
    fs.sync_dir(&dir).map_err(failed("sync", &dir))?;
    let state = found.state();
    let Found {
        recovery,
        sequence,
        sequence_floor,
        ..
    } = found;
    Ok(Opened {
        shared: Shared::new(fs, dir, bytes_max, state, reserve, lock),
        segment_bytes,
        sequence,
        sequence_floor,
        recovery,
    })
}

/// The numbers of the segments in a directory, rising.
pub(crate) fn list_segments(fs: &dyn Fs, dir: &Path) -> Result<Vec<u64>, OpenError> {
    let names = fs.list(dir).map_err(failed("list", dir))?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| segment::number_of(name))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// What has been found so far, segment by segment.
struct Found<'a> {
    fs: &'a dyn Fs,
    dir: &'a Path,
    floor: Floor,
    segments: BTreeMap<u64, Segment>,
    recovery: Recovery,
    /// The last sequence seen, and where its frame ends.
    sequence: u64,
    sequence_floor: u64,
    end: Position,
    last: Option<Last>,
    /// Files of segments that were made and never used.
    unused: Vec<u64>,
}

/// The segment read last: damage at its end is a torn tail only if no other follows.
struct Last {
    number: u64,
    file: Arc<TolerantFile>,
    scan: SegmentScan,
    file_bytes: u64,
    /// The last sequence before it.
    sequence_before: u64,
}

impl<'a> Found<'a> {
    fn new(fs: &'a dyn Fs, dir: &'a Path, floor: Floor) -> Self {
        Self {
            fs,
            dir,
            floor,
            segments: BTreeMap::new(),
            recovery: Recovery::default(),
            sequence: 0,
            sequence_floor: 0,
            end: Position::FIRST,
            last: None,
            unused: Vec::new(),
        }
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.dir.join(segment::file_name(number))
    }

    /// Reads the next segment.
    fn add(&mut self, number: u64) -> Result<(), OpenError> {
        let path = self.path_of(number);
        let file = self.fs.open(&path).map_err(failed("open", &path))?;
        let file = TolerantFile::new(file);
        let mut sequences = Sequences::default();
        let scan = scan::scan(&*file, number, &mut |frame| {
            sequences.see(frame.sequence, frame.end);
        })
        .map_err(failed("read", &path))?;
        if let Err(HeaderError::Version(version)) = scan.header {
            return Err(OpenError::Version { path, version });
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
        self.last = Some(Last {
            number,
            file,
            scan,
            file_bytes,
            sequence_before,
        });
        Ok(())
    }

    /// Whether a segment behind another holds no frame and does not continue it.
    fn is_unused(&self, scan: &SegmentScan) -> bool {
        let tail = scan.tail.as_ref();
        let does_not_continue = match scan.header {
            // The one before was written on after this one was made: it never held anything.
            Ok(header) => header.sequence_before < self.sequence,
            // What is behind a damaged header may have been frames.
            Err(_) => tail.is_none_or(|tail| tail.bytes.end <= SEGMENT_HEADER_BYTES),
        };
        self.last.is_some() && scan.frames == 0 && does_not_continue
    }

    /// Unlinks what was never used.
    fn remove_unused(&self) -> Result<(), OpenError> {
        for &number in &self.unused {
            let path = self.path_of(number);
            match self.fs.unlink(&path) {
                // It stays unused; a segment of its number is made over it.
                Err(error) if is_want_of_room(&error) => {}
                unlinked => unlinked.map_err(failed("unlink", &path))?,
            }
        }
        Ok(())
    }

    /// Compares a segment's first sequence with the last one before, and notes its own gaps.
    fn check_sequences(&mut self, number: u64, scan: &SegmentScan, sequences: Sequences) {
        let first = self.recovery.segments == 0;
        // Without its header a segment does not tell what was before it.
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
            let missing = sequence.saturating_sub(header.sequence_floor + 1);
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
        let floor = scan.header.map_or(0, |header| header.sequence_floor);
        self.sequence_floor = self.sequence_floor.max(self.sequence).max(floor);
    }

    /// The end of a segment that has a successor was synced; what is wrong there is damage.
    fn end_is_damage(&mut self, last: &Last) -> Result<(), OpenError> {
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

    /// Cuts the torn tail and makes what is before it durable.
    fn finish_last(&mut self) -> Result<(), OpenError> {
        if let Some(last) = self.last.take() {
            let position = Position {
                segment: last.number,
                offset: last.scan.end.max(SEGMENT_HEADER_BYTES),
            };
            if let Some(tail) = &last.scan.tail {
                // What cannot be read may have been synced, so that it is damage, and no torn tail.
                let is_damage = last.file.has_failed(&tail.bytes);
                if is_damage {
                    self.quarantine(last.number, &*last.file, tail)?;
                }
                let bytes = tail.bytes.end - tail.bytes.start;
                // Sequences that may have been in there are not used again.
                let floor = self.sequence_floor + bytes / FRAME_BYTES_MIN + 1;
                self.sequence_floor = floor.min(NUMBER_MAX);
                self.recovery.cut = (!is_damage).then_some(Cut {
                    position,
                    bytes,
                    reason: tail.reason,
                });
            }
            // An all-zero file is what a crash right after making a segment leaves.
            if last.scan.header.is_err() && (last.scan.frames > 0 || last.scan.tail.is_some()) {
                self.recovery.headers_damaged.push(last.number);
            }
            self.replace(&last, position)?;
        }
        // Everything up to the checkpoint's sequence was synced once.
        let missing = self.floor.sequence.saturating_sub(self.sequence);
        if missing > 0 {
            self.recovery.gaps.push(Gap {
                after: self.end,
                frames: missing,
            });
            self.sequence = self.floor.sequence;
            self.sequence_floor = self.sequence_floor.max(self.sequence);
        }
        Ok(())
    }

    /// Writes the last segment anew, up to `end`.
    fn replace(&mut self, last: &Last, end: Position) -> Result<(), OpenError> {
        let scan = &last.scan;
        let header = scan.header.unwrap_or_else(|_| {
            let first = scan.sequence_first.map(|sequence| sequence - 1);
            SegmentHeader {
                number: last.number,
                salt: scan.salt.unwrap_or_else(|| self.fs.random()),
                sequence_before: last.sequence_before,
                sequence_floor: first.unwrap_or(self.sequence_floor),
            }
        });
        let path = self.path_of(last.number);
        rewrite::segment(self.fs, self.dir, &*last.file, &header, end.offset)
            .map_err(failed("write anew", &path))?;
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
            segment_newest: newest.unwrap_or(0).max(self.floor.segment),
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
