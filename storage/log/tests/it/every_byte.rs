//! Damages each byte of a whole log once: the tail is cut, the middle reported with its position,
//! and nothing else is touched.

use crate::model::from_env;
use crate::support::{DIR, OwnedSection, append, options, read_from, segment_paths};
use millrace_log::testing::{MemoryFs, SeededRng};
use millrace_log::{Frame, Log, LogOptions, Position, Recovery};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of frames in the log, unless `MILLRACE_LOG_DAMAGE_BYTES` is set.
const BYTES: u64 = 4 << 10;

fn open(fs: &MemoryFs) -> (Log, Recovery) {
    let options = LogOptions {
        bytes_max: 1 << 20,
        ..options()
    };
    Log::open(options, Arc::new(fs.clone())).unwrap()
}

struct Undamaged {
    files: Vec<(PathBuf, Vec<u8>)>,
    frames: Vec<(Frame, Vec<OwnedSection>)>,
}

impl Undamaged {
    /// Some segments, the last as a killed process leaves it: with preallocated zeros behind its
    /// last frame.
    fn of_bytes(bytes: u64) -> Self {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        let handle = log.handle();
        for seed in 0.. {
            if handle.usage().bytes_used >= bytes {
                break;
            }
            append(&mut log, seed, 100 + seed as usize % 7 * 60);
            log.sync().unwrap();
        }
        let read = |path: PathBuf| (path.clone(), fs.read(&path).unwrap());
        let paths = segment_paths(&fs, Path::new(DIR)).into_iter();
        Self {
            files: paths.map(read).collect(),
            frames: read_from(&handle, Position::FIRST),
        }
    }

    fn disk(&self) -> MemoryFs {
        let fs = MemoryFs::new();
        for (path, bytes) in &self.files {
            fs.put(path, bytes);
        }
        // Present, so that thousands of starts need not make it.
        fs.put(&Path::new(DIR).join("reserve"), b"");
        fs
    }

    /// Index of the frame that has a byte, by its position in the log.
    fn frame_with(&self, damaged: Position) -> Option<usize> {
        self.frames
            .iter()
            .position(|(frame, _)| frame.position <= damaged && damaged < frame.end)
    }
}

#[test]
fn each_damaged_byte_costs_the_frame_it_is_in_and_no_other() {
    let mut log = Undamaged::of_bytes(from_env("MILLRACE_LOG_DAMAGE_BYTES", BYTES));
    let mut rng = SeededRng::new(1);
    let mut count = 0_u64;
    for file in 0..log.files.len() {
        for offset in 0..log.files[file].1.len() {
            let whole = log.files[file].1[offset];
            for damage in [1 << rng.below(8), 0xff, whole.max(1)] {
                log.files[file].1[offset] = whole ^ damage;
                let position = Position {
                    segment: file as u64 + 1,
                    offset: offset as u64,
                };
                check(&log, position, damage == whole);
                count += 1;
            }
            log.files[file].1[offset] = whole;
        }
    }
    let bytes: usize = log.files.iter().map(|(_, bytes)| bytes.len()).sum();
    println!("{count} starts on a log of {bytes} bytes, each with one of them damaged");
}

fn check(log: &Undamaged, damaged: Position, is_zeroed: bool) {
    let fs = log.disk();
    let (mut opened, recovery) = open(&fs);
    let lost = log.frame_with(damaged);
    check_report(log, &recovery, damaged, lost, is_zeroed);
    let expected = log.frames.iter().enumerate();
    let expected = expected.filter(|(index, _)| Some(*index) != lost);
    let found = read_from(&opened.handle(), Position::FIRST);
    let found = found
        .iter()
        .map(|(frame, sections)| (frame.position, sections));
    let expected = expected.map(|(_, (frame, sections))| (frame.position, sections));
    assert!(found.eq(expected), "{damaged}: all but one, as they were");
    // The log goes on, and starts again.
    let next = append(&mut opened, 99, 50);
    opened.sync().unwrap();
    assert!(next > log.frames.last().unwrap().0.position);
    let frames = recovery.frames;
    drop(opened);
    let (_, again) = open(&fs);
    assert_eq!((again.frames, again.cut), (frames + 1, None), "{damaged}");
}

/// Asserts that exactly the damage is reported, with its position.
fn check_report(
    log: &Undamaged,
    recovery: &Recovery,
    damaged: Position,
    lost: Option<usize>,
    is_zeroed: bool,
) {
    let last_segment = log.files.len() as u64;
    let in_header = damaged.offset < 64;
    let headers: &[u64] = if in_header { &[damaged.segment] } else { &[] };
    assert_eq!(recovery.headers_damaged, headers, "{damaged}");
    let frame = lost.map(|lost| &log.frames[lost].0);
    let is_last = lost == Some(log.frames.len() - 1);
    let cut = recovery.cut.as_ref().map(|cut| cut.position);
    match frame {
        Some(frame) if !is_last => {
            assert_eq!((recovery.quarantined.len(), recovery.gaps.len()), (1, 1));
            let quarantined = &recovery.quarantined[0];
            assert_eq!(quarantined.start, frame.position, "{damaged}");
            // At the end of a segment zeros look like preallocated bytes.
            assert!(damaged < quarantined.end || is_zeroed, "{damaged}");
            assert!(quarantined.end <= frame.end, "{damaged}");
            assert!(quarantined.copy.is_some());
            assert_eq!((recovery.gaps[0].frames, cut), (1, None), "{damaged}");
        }
        Some(frame) => {
            assert_eq!(cut, Some(frame.position), "{damaged}: a tail");
            assert!(!recovery.is_damaged(), "{damaged}");
        }
        None => {
            assert!(recovery.quarantined.is_empty() && recovery.gaps.is_empty());
            let behind = damaged.segment == last_segment && !in_header;
            let end = log.frames.last().unwrap().0.end;
            assert_eq!(
                cut,
                behind.then_some(end),
                "{damaged}: preallocated, or a header"
            );
        }
    }
}
