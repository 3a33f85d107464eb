//! Recovery: the findings and decisions of a start.

use crate::support::{
    DIR, append, borrowed, contents, damaged_first, open, options, read_from, sections,
    segment_paths, try_open,
};
use millrace_log::testing::{Fault, FaultKind, MemoryFs};
use millrace_log::{
    AppendError, Log, OpenError, Position, Recovery, Section, SectionHeader, inspect, panic_text,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

#[test]
fn an_empty_directory_is_an_empty_log() {
    let fs = MemoryFs::new();
    let (log, recovery) = open(&fs);
    assert_eq!(recovery, Recovery::default());
    assert_eq!(log.handle().reader(Position::FIRST).next().unwrap(), None);
    assert_eq!(log.handle().synced(), Position::FIRST);
    assert_eq!(log.handle().usage().bytes_used, 0);
}

#[test]
fn an_unwritten_segment_is_no_damage() {
    let fs = MemoryFs::new();
    fs.put(&Path::new(DIR).join("00000000000000000001.log"), &[0; 2048]);
    let (mut log, recovery) = open(&fs);
    assert!(!recovery.is_damaged(), "{recovery:?}");
    assert_eq!(append(&mut log, 1, 100).segment, 2);
}

#[test]
fn readers_see_a_frame_when_it_is_synced_and_not_before() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    let mut reader = log.handle().reader(Position::FIRST);
    let position = append(&mut log, 1, 100);
    assert_eq!(reader.next().unwrap(), None);
    let end = log.sync().unwrap();
    let frame = reader.next().unwrap().unwrap();
    assert_eq!((frame.position, frame.end), (position, end));
    assert_eq!(reader.next().unwrap(), None);
    append(&mut log, 2, 100);
    log.sync().unwrap();
    assert_eq!(reader.next().unwrap().unwrap().position, end);
}

#[test]
fn whole_frames_that_were_never_synced_are_kept() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    for seed in 0..5 {
        append(&mut log, seed, 300);
    }
    drop(log);
    let (log, recovery) = open(&fs);
    assert_eq!((recovery.frames, recovery.cut.clone()), (5, None));
    assert!(!recovery.is_damaged());
    let expected: Vec<_> = (0..5).map(|seed| sections(seed, 300)).collect();
    assert_eq!(contents(&log.handle()), expected);
}

#[test]
fn a_tail_torn_at_any_byte_is_cut() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    append(&mut log, 1, 100);
    let last = append(&mut log, 2, 100);
    let end = log.sync().unwrap().offset as usize;
    drop(log);
    let path = segment_paths(&fs, Path::new(DIR)).remove(0);
    let whole = fs.read(&path).unwrap();
    for torn in last.offset as usize..end {
        let mut bytes = whole.clone();
        bytes[torn..].fill(0);
        fs.put(&path, &bytes);
        let (log, recovery) = open(&fs);
        assert_eq!(recovery.frames, 1, "torn at {torn}");
        assert!(!recovery.is_damaged());
        let nothing_left = bytes[last.offset as usize..].iter().all(|&byte| byte == 0);
        assert_eq!(recovery.cut.is_none(), nothing_left);
        if let Some(cut) = recovery.cut {
            assert_eq!(cut.position, last);
            let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
            assert_eq!(cut.bytes, end as u64 - last.offset);
        }
        assert_eq!(contents(&log.handle()), [sections(1, 100)]);
        drop(log);
        assert_eq!(open(&fs).1.cut, None, "it is cut once");
    }
}

#[test]
fn positions_and_sequences_of_a_cut_frame_are_not_used_again() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    append(&mut log, 1, 100);
    let cut = append(&mut log, 2, 100);
    log.sync().unwrap();
    drop(log);
    let path = segment_paths(&fs, Path::new(DIR)).remove(0);
    let mut bytes = fs.read(&path).unwrap();
    bytes[cut.offset as usize + 60] ^= 1;
    fs.put(&path, &bytes);
    let (mut log, recovery) = open(&fs);
    assert!(recovery.cut.is_some());
    let next = append(&mut log, 3, 100);
    log.sync().unwrap();
    assert!(next > cut);
    let frames = read_from(&log.handle(), Position::FIRST);
    assert!(frames[1].0.sequence > 2);
    drop(log);
    assert!(!open(&fs).1.is_damaged(), "the jump is no gap");
}

#[test]
fn a_missing_segment_is_a_gap() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    for seed in 0..12 {
        append(&mut log, seed, 900);
        log.sync().unwrap();
    }
    let frames = read_from(&log.handle(), Position::FIRST);
    drop(log);
    let paths = segment_paths(&fs, Path::new(DIR));
    assert!(paths.len() > 3);
    millrace_log::fs::Fs::unlink(&fs, &paths[1]).unwrap();
    let (log, recovery) = open(&fs);
    let lost = frames.iter().filter(|(f, _)| f.position.segment == 2);
    let lost = lost.count() as u64;
    assert_eq!(recovery.gaps.len(), 1);
    assert_eq!(recovery.gaps[0].frames, lost);
    assert_eq!(contents(&log.handle()).len() as u64, 12 - lost);
}

#[test]
fn after_a_failed_write_or_sync_nothing_works_until_the_log_is_reopened() {
    // Calls of one append and sync into an open segment: the preallocation of more, the write, the
    // sync.
    for after in 0..3 {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        append(&mut log, 1, 100);
        log.sync().unwrap();
        let kind = FaultKind::Io;
        fs.set_fault(Some(Fault { after, kind }));
        let owned = sections(2, 100);
        let appended = log.append(&borrowed(&owned));
        assert_eq!(appended.is_err(), after < 2);
        let first = log.sync().unwrap_err().to_string();
        assert!(!fs.has_fault());
        let handle = log.handle();
        let failures = [
            log.sync().unwrap_err().to_string(),
            log.append(&borrowed(&owned)).unwrap_err().to_string(),
            handle.release(handle.synced()).unwrap_err().to_string(),
            handle.store_checkpoint(b"x").unwrap_err().to_string(),
        ];
        assert!(failures.iter().all(|failure| *failure == first), "{first}");
        assert!(first.contains("must be reopened"));
        assert_eq!(contents(&handle), [sections(1, 100)]);
        drop((log, handle));
        let (mut log, _) = open(&fs);
        append(&mut log, 3, 100);
        log.sync().unwrap();
    }
}

#[test]
fn frames_read_after_a_failed_sync_survive_the_next_power_cut() {
    // The second sync of the same file would succeed and write nothing.
    for seed in 0..50 {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        append(&mut log, 1, 100);
        log.sync().unwrap();
        append(&mut log, 2, 100);
        fs.set_fault(Some(Fault {
            after: 0,
            kind: FaultKind::Io,
        }));
        log.sync().unwrap_err();
        drop(log);
        let (log, recovery) = open(&fs);
        assert_eq!(recovery.frames, 2);
        drop(log);
        fs.crash(seed);
        assert_eq!(open(&fs).1.frames, 2);
    }
}

#[test]
fn a_frame_inside_an_event_is_not_taken_for_one() {
    let forged = frame_of_another_log();
    // At all eight alignments, as the sender cannot know where it lands.
    let mut text = Vec::new();
    for shift in 0..8 {
        text.extend(std::iter::repeat_n(0, shift));
        text.extend_from_slice(&forged);
    }
    let fs = damaged_first(&text, 0);
    let (log, recovery) = open(&fs);
    assert_eq!(recovery.quarantined.len(), 1);
    assert_eq!(contents(&log.handle()), [sections(2, 100)]);
}

fn frame_of_another_log() -> Vec<u8> {
    let other = MemoryFs::new();
    // Its salt differs from the first one of any other disk.
    millrace_log::fs::Fs::random(&other);
    let (mut log, _) = open(&other);
    let start = append(&mut log, 9, 50).offset as usize;
    let end = log.sync().unwrap().offset as usize;
    let path = segment_paths(&other, Path::new(DIR)).remove(0);
    other.read(&path).unwrap()[start..end].to_vec()
}

#[test]
fn a_log_of_another_format_is_refused_and_left_alone() {
    let (older, newer) = ("older than this program reads", "newer than");
    // Where the version is, and what a sum behind it covers.
    let segment = (8, 0..60);
    let first_frame = (68, 64..108);
    for (version, reason, (at, covered)) in [
        (1, older, segment.clone()),
        (3, newer, segment),
        // As a program that reads both leaves a log.
        (1, older, first_frame.clone()),
        (3, newer, first_frame),
    ] {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        append(&mut log, 1, 100);
        log.sync().unwrap();
        drop(log);
        let path = segment_paths(&fs, Path::new(DIR)).remove(0);
        let mut bytes = fs.read(&path).unwrap();
        bytes[at] = version;
        let crc_at = covered.end;
        let crc = crc32fast::hash(&bytes[covered]);
        bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
        fs.put(&path, &bytes);
        let refused = try_open(&fs).unwrap_err().to_string();
        let expected =
            format!("{DIR}/00000000000000000001.log: format version {version} is {reason}");
        assert!(refused.starts_with(&expected), "{refused}");
        let seen = inspect(&fs, Path::new(DIR), &mut |_| {}).unwrap();
        let found = seen.segments[0].unreadable[0].reason;
        assert!(found.contains(reason), "{found}");
        assert_eq!(fs.read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_panic_while_a_segment_is_read_names_its_file() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    append(&mut log, 1, 100);
    log.sync().unwrap();
    drop(log);
    fs.set_panic_after_reads(0);
    let opened = catch_unwind(AssertUnwindSafe(|| try_open(&fs)));
    assert_eq!(
        panic_text(&*opened.unwrap_err()),
        "reading /log/00000000000000000001.log panicked: a mistake of ours"
    );
}

#[test]
fn numbers_rise_even_if_someone_removes_the_segments() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    let before = append(&mut log, 1, 100);
    log.sync().unwrap();
    log.handle().store_checkpoint(b"mine").unwrap();
    drop(log);
    for path in segment_paths(&fs, Path::new(DIR)) {
        millrace_log::fs::Fs::unlink(&fs, &path).unwrap();
    }
    let (mut log, recovery) = open(&fs);
    assert_eq!(recovery.gaps.len(), 1, "it is noticed");
    assert!(append(&mut log, 2, 100).segment > before.segment);
    log.sync().unwrap();
    assert!(read_from(&log.handle(), before)[0].0.sequence > 1);
}

#[test]
fn a_new_segment_continues_the_numbers_even_if_a_power_cut_takes_its_frames() {
    for seed in 0..20 {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        append(&mut log, 1, 1500);
        log.sync().unwrap();
        // The next one goes to a new segment and is never synced; the old one is released.
        append(&mut log, 2, 1500);
        let handle = log.handle();
        handle.store_checkpoint(b"all shipped").unwrap();
        assert_eq!(handle.release(handle.synced()).unwrap(), 1);
        drop((log, handle));
        fs.crash(seed);
        let (_, recovery) = open(&fs);
        assert!(!recovery.is_damaged(), "{recovery:?}");
    }
}

/// Found by the model: ENOSPC while making a segment, EIO while taking it back.
#[test]
fn an_unused_segment_says_nothing_about_the_one_before() {
    for seed in 0..50 {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        append(&mut log, 1, 500);
        log.sync().unwrap();
        fs.set_capacity(Some(0));
        // The file is made, finds no space, and stays as it cannot be unlinked.
        let kind = FaultKind::Io;
        fs.set_fault(Some(Fault { after: 1, kind }));
        let owned = sections(2, 1800);
        let refused = log.append(&borrowed(&owned)).unwrap_err();
        assert!(matches!(refused, AppendError::DiskFull { .. }), "{refused}");
        assert_eq!(segment_paths(&fs, Path::new(DIR)).len(), 2);
        fs.set_capacity(None);
        // The segment before is written on, and not synced.
        append(&mut log, 3, 100);
        drop(log);
        if seed % 2 == 0 {
            assert_eq!(open(&fs).1.frames, 2, "what was written whole is there");
        }
        fs.crash(seed);
        let (_, recovery) = open(&fs);
        assert!(
            recovery.frames == 2 || seed % 2 == 1,
            "and stays, once shown"
        );
        assert!(!recovery.is_damaged(), "a torn tail is no damage");
    }
}

/// Found by libFuzzer: such a segment was kept for its bytes, and gone at the next start.
#[test]
fn an_unused_segment_is_removed_whatever_bytes_it_has() {
    let of_other = MemoryFs::new();
    let (mut log, _) = open(&of_other);
    append(&mut log, 1, 100);
    append(&mut log, 2, 1900);
    log.sync().unwrap();
    let path = segment_paths(&of_other, Path::new(DIR)).remove(1);
    let mut unused = of_other.read(&path).unwrap();
    unused[70..].fill(7);
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    // Written on behind what the other segment continues.
    for seed in 1..4 {
        append(&mut log, seed, 100);
    }
    let end = log.sync().unwrap();
    drop(log);
    let first = segment_paths(&fs, Path::new(DIR)).remove(0);
    let mut torn = fs.read(&first).unwrap();
    torn[end.offset as usize..][..8].fill(7);
    fs.put(&first, &torn);
    fs.put(&path, &unused);
    let (log, recovery) = open(&fs);
    assert_eq!((recovery.frames, recovery.segments), (3, 1));
    assert!(!recovery.is_damaged(), "a torn tail is no damage");
    assert_eq!(recovery.cut.unwrap().position, end);
    assert_eq!(segment_paths(&fs, Path::new(DIR)), [first]);
    drop(log);
    assert_eq!(open(&fs).1.cut, None, "it is cut once");
}

#[test]
fn a_log_needs_capacity_for_four_segments_of_the_smallest_frame() {
    let header = SectionHeader::default();
    let smallest = [Section {
        header: &header,
        blocks: &[],
    }];
    for (bytes_max, is_enough) in [(100, false), (639, false), (640, true)] {
        let options = millrace_log::LogOptions {
            bytes_max,
            ..options()
        };
        let opened = Log::open(options, Arc::new(MemoryFs::new()));
        assert_eq!(opened.is_ok(), is_enough, "{bytes_max} bytes");
        match opened {
            Ok((mut log, _)) => drop(log.append(&smallest).unwrap()),
            Err(refused) => assert!(matches!(refused, OpenError::Options(_)), "{refused}"),
        }
    }
}

#[test]
fn opened_at_is_where_the_log_ended_when_it_was_opened() {
    let fs = MemoryFs::new();
    let mut end = Position::FIRST;
    for seed in 0..3 {
        let (mut log, _) = open(&fs);
        assert_eq!(log.handle().opened_at(), end);
        append(&mut log, seed, 100);
        end = log.sync().unwrap();
        assert!(log.handle().opened_at() < end);
    }
}
