//! Disks that return bytes other than those written.

use crate::support::{
    DIR, OwnedSection, append, borrowed, contents, damaged_first, open, options, read_from,
    sections, segment_paths, try_open,
};
use millrace_log::testing::bytes::reseal_segment;
use millrace_log::testing::{MemoryFs, SeededRng};
use millrace_log::{AppendError, Log, LogOptions, Position, ReadError, inspect};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Path and bytes of a file.
type NamedBytes = (PathBuf, Vec<u8>);

/// Two segments of small frames and their contents, as they are after a clean end.
fn small_log() -> (Vec<NamedBytes>, Vec<Vec<OwnedSection>>) {
    let fs = MemoryFs::new();
    for run in 0..2 {
        let (mut log, _) = open(&fs);
        for seed in 0..3 {
            append(&mut log, run * 3 + seed, 40);
        }
        log.sync().unwrap();
    }
    let (log, _) = open(&fs);
    let whole = contents(&log.handle());
    assert_eq!(whole.len(), 6);
    let paths = segment_paths(&fs, Path::new(DIR));
    let read = |path: PathBuf| (path.clone(), fs.read(&path).unwrap());
    (paths.into_iter().map(read).collect(), whole)
}

/// A running log of three frames, and its disk.
fn log_of_three_frames() -> (MemoryFs, Log) {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    for seed in 0..3 {
        append(&mut log, seed, 100);
    }
    log.sync().unwrap();
    (fs, log)
}

fn disk_with(files: &[NamedBytes]) -> MemoryFs {
    let fs = MemoryFs::new();
    for (path, bytes) in files {
        fs.put(path, bytes);
    }
    // Present, so that thousands of starts need not make it.
    fs.put(&Path::new(DIR).join("reserve"), b"");
    fs
}

fn is_subsequence(part: &[Vec<OwnedSection>], whole: &[Vec<OwnedSection>]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|frame| rest.any(|other| other == frame))
}

#[test]
fn every_flipped_bit_is_reported_and_never_read() {
    let (mut files, whole) = small_log();
    let bits: usize = files.iter().map(|(_, bytes)| bytes.len() * 8).sum();
    assert!(bits > 10_000, "{bits} bits");
    for file in 0..files.len() {
        for bit in 0..files[file].1.len() * 8 {
            files[file].1[bit / 8] ^= 1 << (bit % 8);
            let fs = disk_with(&files);
            let seen = inspect(&fs, Path::new(DIR), &mut |_| {}).unwrap();
            let unreadable: usize = seen.segments.iter().map(|s| s.unreadable.len()).sum();
            assert!(unreadable > 0, "file {file} bit {bit} is inspected");
            let (log, recovery) = open(&fs);
            let reported = recovery.cut.is_some() || recovery.is_damaged();
            assert!(reported, "file {file} bit {bit} is reported");
            let read = contents(&log.handle());
            assert!(read.len() >= 5 && is_subsequence(&read, &whole));
            assert_eq!(recovery.frames, read.len() as u64);
            files[file].1[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn damage_in_the_middle_is_quarantined_and_skipped() {
    let (mut files, whole) = small_log();
    // The second frame of the first segment.
    let fs = disk_with(&files);
    let frame = read_from(&open(&fs).0.handle(), Position::FIRST)[1]
        .0
        .clone();
    files[0].1[frame.position.offset as usize + 50] ^= 4;
    let fs = disk_with(&files);
    for _ in 0..2 {
        let (log, recovery) = open(&fs);
        assert_eq!(recovery.quarantined.len(), 1, "reported at every start");
        let found = &recovery.quarantined[0];
        assert_eq!((found.start, found.end), (frame.position, frame.end));
        let copy = fs.read(found.copy.as_ref().unwrap()).unwrap();
        let range = frame.position.offset as usize..frame.end.offset as usize;
        assert_eq!(copy, files[0].1[range]);
        let read = contents(&log.handle());
        assert_eq!(read[0], whole[0]);
        assert_eq!(read[1..], whole[2..]);
        assert_eq!(recovery.gaps.len(), 1);
        assert_eq!(recovery.gaps[0].frames, 1);
    }
}

#[test]
fn damage_while_running_is_reported_and_can_be_skipped() {
    let (fs, log) = log_of_three_frames();
    let frames = read_from(&log.handle(), Position::FIRST);
    let path = segment_paths(&fs, Path::new(DIR)).remove(0);
    let mut bytes = fs.read(&path).unwrap();
    // The second frame's header, and the last byte of the third one's blocks.
    bytes[frames[1].0.position.offset as usize + 20] ^= 1;
    bytes[frames[2].0.end.offset as usize - 24] ^= 1;
    fs.put(&path, &bytes);
    let mut reader = log.handle().reader(Position::FIRST);
    assert_eq!(reader.skip_damage().unwrap(), None, "nothing to pass yet");
    reader.next().unwrap().unwrap();
    for _ in 0..2 {
        let error = reader.next().unwrap_err();
        assert!(
            matches!(error, ReadError::Corrupt { position, .. } if position == frames[1].0.position)
        );
    }
    let skipped = reader.skip_damage().unwrap().unwrap();
    assert_eq!(skipped.start, frames[1].0.position);
    // The third frame is not sound as a whole, so reading goes on at the end.
    assert_eq!(skipped.end, log.handle().synced());
    let kept = fs.read(skipped.copy.as_ref().unwrap()).unwrap();
    let range = skipped.start.offset as usize..skipped.end.offset as usize;
    assert_eq!(kept, bytes[range], "as a start keeps it");
    assert_eq!(reader.next().unwrap(), None);
    let mut reader = log.handle().reader(frames[1].0.end);
    let third = reader.next().unwrap().unwrap();
    let last = third.sections.last().unwrap();
    let error = reader.read_blocks(last).unwrap_err();
    assert!(matches!(error, ReadError::Corrupt { .. }));
}

#[test]
fn sections_that_are_read_into_one_buffer_are_each_proven() {
    let (fs, log) = log_of_three_frames();
    let frames = read_from(&log.handle(), Position::FIRST);
    let sections = || frames.iter().flat_map(|(frame, _)| &frame.sections);
    let whole: Vec<u8> = frames
        .iter()
        .flat_map(|(_, contents)| contents)
        .flat_map(|(_, blocks)| blocks.clone())
        .collect();
    let mut reader = log.handle().reader(Position::FIRST);
    let mut together = Vec::new();
    for section in sections() {
        reader.read_blocks_into(section, &mut together).unwrap();
    }
    assert!(together == whole);
    // The last byte of the last section.
    let path = segment_paths(&fs, Path::new(DIR)).remove(0);
    let mut bytes = fs.read(&path).unwrap();
    bytes[frames[2].0.end.offset as usize - 24] ^= 1;
    fs.put(&path, &bytes);
    let mut reader = log.handle().reader(Position::FIRST);
    let mut together = Vec::new();
    let proven = sections()
        .take_while(|section| reader.read_blocks_into(section, &mut together).is_ok())
        .count();
    assert_eq!(proven, sections().count() - 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_the_log_panic(
        noise in prop::collection::vec(any::<u8>(), 0..600),
        seed in any::<u64>(),
    ) {
        let (mut files, whole) = small_log();
        let mut rng = SeededRng::new(seed);
        let file = rng.below(2) as usize;
        let bytes = &mut files[file].1;
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(4) {
            0 => *bytes = noise,
            1 => bytes.truncate(at),
            2 => bytes.splice(at..at, noise).for_each(drop),
            _ => for (old, byte) in bytes[at..].iter_mut().zip(noise) { *old = byte },
        }
        let fs = disk_with(&files);
        inspect(&fs, Path::new(DIR), &mut |_| {}).unwrap();
        let (mut log, _) = open(&fs);
        prop_assert!(is_subsequence(&contents(&log.handle()), &whole));
        append(&mut log, 99, 100);
        log.sync().unwrap();
    }
}

#[test]
fn frames_of_a_segment_without_header_are_read() {
    let (mut files, whole) = small_log();
    for file in 0..2 {
        files[file].1[..64].fill(0xff);
        let (log, recovery) = open(&disk_with(&files));
        assert_eq!(
            recovery.headers_damaged,
            (1..=file as u64 + 1).collect::<Vec<_>>()
        );
        assert_eq!(contents(&log.handle()), whole);
    }
}

/// Found by fuzzing: with checksums that fit, one more than the last sequence overflowed. And a cut
/// counted on from there, to sequences that the next start took for damage.
#[test]
fn a_log_without_a_sequence_left_refuses_appends_and_opens() {
    let (mut files, whole) = small_log();
    // The second segment without its frame: its sequence before, and the highest one used up.
    let bytes = &mut files[1].1;
    for at in [32, 40] {
        bytes[at..at + 8].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
    }
    bytes[64..].fill(7);
    reseal_segment(bytes, 2);
    let fs = disk_with(&files);
    for start in 0..3 {
        let (mut log, recovery) = open(&fs);
        assert_eq!(recovery.cut.is_some(), start == 0, "it is cut once");
        assert!(recovery.headers_damaged.is_empty());
        assert!(is_subsequence(&contents(&log.handle()), &whole));
        let owned = sections(99, 100);
        let refused = log.append(&borrowed(&owned)).unwrap_err();
        assert!(matches!(refused, AppendError::Invalid(_)), "{refused}");
    }
}

#[test]
fn the_highest_sequence_can_be_used() {
    let (mut files, _) = small_log();
    let bytes = &mut files[1].1;
    for at in [32, 40] {
        bytes[at..at + 8].copy_from_slice(&(u64::MAX / 2 - 1).to_le_bytes());
    }
    bytes[64..].fill(0);
    reseal_segment(bytes, 2);
    let fs = disk_with(&files);
    let (mut log, _) = open(&fs);
    append(&mut log, 99, 100);
    log.sync().unwrap();
    let owned = sections(99, 100);
    let refused = log.append(&borrowed(&owned)).unwrap_err();
    assert!(matches!(refused, AppendError::Invalid(_)), "{refused}");
    drop(log);
    assert_eq!(contents(&open(&fs).0.handle()).last(), Some(&owned));
}

#[test]
fn sequence_numbers_beyond_the_maximum_are_damage() {
    // Both sequences of a header, and the first frame's.
    for at in [32, 40, 64 + 16] {
        let (mut files, whole) = small_log();
        let bytes = &mut files[1].1;
        bytes[at..at + 8].fill(0xff);
        reseal_segment(bytes, 2);
        let fs = disk_with(&files);
        let (mut log, recovery) = open(&fs);
        assert!(recovery.is_damaged(), "at {at}");
        assert!(is_subsequence(&contents(&log.handle()), &whole));
        append(&mut log, 99, 100);
        log.sync().unwrap();
    }
}

/// The search for the next frame goes on right behind bytes that only begin like one.
#[test]
fn a_frame_is_found_behind_bytes_that_begin_like_frames() {
    for shift in 0..4 {
        let text = [&b"..."[..shift], &b"MFRM".repeat(20)].concat();
        let fs = damaged_first(&text, 8);
        assert_eq!(contents(&open(&fs).0.handle()), [sections(2, 100)]);
    }
}

#[test]
fn frames_larger_than_one_read_are_proven_and_skipped_when_damaged() {
    let options = || LogOptions {
        segment_bytes: 32 << 20,
        bytes_max: 128 << 20,
        ..options()
    };
    let fs = MemoryFs::new();
    let (mut log, _) = Log::open(options(), Arc::new(fs.clone())).unwrap();
    for seed in 0..3 {
        append(&mut log, seed, 15 << 20);
    }
    log.sync().unwrap();
    let whole = read_from(&log.handle(), Position::FIRST);
    drop(log);
    let (log, recovery) = Log::open(options(), Arc::new(fs.clone())).unwrap();
    assert!(!recovery.is_damaged(), "{recovery:?}");
    assert_eq!(recovery.frames, 3);
    drop(log);
    let path = segment_paths(&fs, Path::new(DIR)).remove(0);
    let mut bytes = fs.read(&path).unwrap();
    // The last block of the first frame.
    bytes[whole[0].0.end.offset as usize - 30] ^= 1;
    fs.put(&path, &bytes);
    let (log, recovery) = Log::open(options(), Arc::new(fs.clone())).unwrap();
    assert_eq!((recovery.frames, recovery.quarantined.len()), (2, 1));
    let left = read_from(&log.handle(), Position::FIRST);
    assert!(
        left.iter()
            .map(|it| &it.1)
            .eq(whole[1..].iter().map(|it| &it.1))
    );
}

#[test]
fn a_directory_with_foreign_files_opens() {
    let fs = disk_with(&small_log().0);
    for name in [
        "00000000000000000007.log.bak",
        "7.log",
        "notes.txt",
        "segment.tmp",
    ] {
        fs.put(&Path::new(DIR).join(name), b"not a segment");
    }
    assert_eq!(try_open(&fs).unwrap().1.frames, 6);
    assert!(Log::open(options(), Arc::new(fs)).is_ok());
}
