//! A full log and a full disk: refusals that change nothing and end when there is space.

use crate::support::{DIR, append, borrowed, contents, open, read_from, sections, segment_paths};
use millrace_log::testing::MemoryFs;
use millrace_log::{AppendError, Log, Position};
use std::path::Path;

/// Bytes that a log reserves for its checkpoints.
const RESERVE_BYTES: u64 = 2 << 20;

/// Appends until refused; returns the number of frames and the error.
fn fill(log: &mut Log, blocks_bytes: usize) -> (u64, AppendError) {
    let owned = sections(5, blocks_bytes);
    for count in 0.. {
        match log.append(&borrowed(&owned)) {
            Ok(_) => log.sync().unwrap(),
            Err(error) => return (count, error),
        };
    }
    unreachable!("a log is never endless")
}

#[test]
fn a_full_log_refuses_until_segments_are_released() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    let handle = log.handle();
    let (count, refused) = fill(&mut log, 500);
    let usage = handle.usage();
    assert!(
        matches!(refused, AppendError::Full { bytes_used, bytes_max }
            if bytes_used == usage.bytes_used && bytes_max == usage.bytes_max)
    );
    assert!(usage.bytes_used <= usage.bytes_max && usage.bytes_used > usage.bytes_max - 1000);
    let frames = read_from(&handle, Position::FIRST);
    assert_eq!(frames.len() as u64, count);
    let last = frames.last().unwrap().0.position.segment;
    let segments = segment_paths(&fs, Path::new(DIR)).len() as u64;
    assert_eq!(segments, last, "a refusal makes no segment");
    let third = frames
        .iter()
        .find(|(f, _)| f.position.segment == 3)
        .unwrap();
    assert_eq!(handle.release(third.0.position).unwrap(), 2);
    assert_eq!(handle.start().segment, 3);
    let (more, _) = fill(&mut log, 500);
    assert!(more >= 4, "capacity of two segments");
    let on_disk: u64 = segment_paths(&fs, Path::new(DIR))
        .iter()
        .map(|path| fs.read(path).unwrap().len() as u64)
        .sum();
    assert!(
        on_disk <= usage.bytes_max + 2048,
        "and what is preallocated"
    );
}

#[test]
fn a_log_whose_every_frame_is_released_never_stays_full() {
    for blocks_bytes in [100, 500, 3000, 9000, 20_000] {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        let handle = log.handle();
        for _ in 0..5 {
            let (count, _) = fill(&mut log, blocks_bytes);
            assert!(count > 0, "{blocks_bytes}");
            handle.release(handle.synced()).unwrap();
        }
        assert_eq!(handle.failure(), None);
    }
}

#[test]
fn the_last_segment_is_freed_once_all_is_released_also_after_a_restart() {
    let fs = MemoryFs::new();
    for starts_anew in [false, true] {
        let (mut log, _) = open(&fs);
        append(&mut log, 1, 10_000);
        let first = log.sync().unwrap();
        let position = append(&mut log, 2, 10_000);
        log.sync().unwrap();
        if starts_anew {
            drop(log);
            (log, _) = open(&fs);
        }
        let handle = log.handle();
        handle.release(first).unwrap();
        let before = handle.usage().bytes_used;
        log.roll_if_released().unwrap();
        assert_eq!(handle.usage().bytes_used, before, "it is not all released");
        handle.release(handle.synced()).unwrap();
        for _ in 0..3 {
            log.roll_if_released().unwrap();
            assert!(handle.usage().bytes_used < 1_000);
        }
        assert_eq!(segment_paths(&fs, Path::new(DIR)).len(), 1);
        let next = append(&mut log, 3, 10);
        log.sync().unwrap();
        assert!(position < next, "no position is used twice");
        assert_eq!(read_from(&handle, next).len(), 1);
        handle.release(handle.synced()).unwrap();
        log.roll_if_released().unwrap();
    }
}

#[test]
fn a_frame_larger_than_a_segment_gets_its_own() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    let large = append(&mut log, 1, 10_000);
    let small = append(&mut log, 2, 10);
    log.sync().unwrap();
    assert_eq!((large.segment, small.segment), (1, 2));
    let expected = [sections(1, 10_000), sections(2, 10)];
    assert_eq!(contents(&log.handle()), expected);
    let impossible = sections(3, 40_000);
    let refused = log.append(&borrowed(&impossible)).unwrap_err();
    assert!(matches!(refused, AppendError::Full { .. }));
}

#[test]
fn a_full_disk_refuses_and_recovers_unaided() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    let start: usize = fs.paths().iter().map(|p| fs.read(p).unwrap().len()).sum();
    fs.set_capacity(Some(start as u64 + 5000));
    let (first, refused) = fill(&mut log, 500);
    assert!(matches!(refused, AppendError::DiskFull { .. }), "{refused}");
    assert_eq!(log.handle().failure(), None);
    assert_eq!(contents(&log.handle()).len() as u64, first);
    fs.set_capacity(None);
    let (more, _) = fill(&mut log, 500);
    assert!(more > 20);
    drop(log);
    let (_, recovery) = open(&fs);
    assert_eq!(recovery.frames, first + more);
    assert!(!recovery.is_damaged() && recovery.cut.is_none());
}

#[test]
fn nothing_is_appended_while_the_reserve_of_the_checkpoint_is_missing() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    let handle = log.handle();
    append(&mut log, 1, 100);
    log.sync().unwrap();
    let used = || {
        let paths = fs.paths();
        paths
            .iter()
            .map(|p| fs.read(p).unwrap().len())
            .sum::<usize>() as u64
    };
    fs.set_capacity(Some(used()));
    handle.store_checkpoint(&[1; 1000]).unwrap();
    assert!(
        !handle.has_reserve(),
        "the disk is full, and it was given up"
    );
    // The space of the reserve is free now, and enough for many frames.
    for n in 0..50u8 {
        let refused = log.append(&borrowed(&sections(2, 500))).unwrap_err();
        assert!(
            matches!(refused, AppendError::NoReserve { .. }),
            "{refused}"
        );
        handle.store_checkpoint(&[n; 1000]).unwrap();
    }
    assert_eq!(handle.failure(), None);
    fs.set_capacity(None);
    append(&mut log, 2, 500);
    assert!(handle.has_reserve(), "made anew before the frame");
    log.sync().unwrap();
    assert_eq!(contents(&handle), [sections(1, 100), sections(2, 500)]);
}

#[test]
fn a_log_opened_without_space_for_a_reserve_refuses_appends_until_there_is() {
    let fs = MemoryFs::new();
    fs.set_capacity(Some(RESERVE_BYTES - 1));
    let (mut log, _) = open(&fs);
    let refused = log.append(&borrowed(&sections(1, 100))).unwrap_err();
    assert!(
        matches!(refused, AppendError::NoReserve { bytes_needed, .. }
        if bytes_needed == RESERVE_BYTES)
    );
    fs.set_capacity(None);
    append(&mut log, 1, 100);
}

#[test]
fn a_segment_grows_step_by_step_and_a_full_disk_in_between_changes_nothing() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    append(&mut log, 1, 100);
    log.sync().unwrap();
    let used = || {
        fs.paths()
            .iter()
            .map(|p| fs.read(p).unwrap().len())
            .sum::<usize>() as u64
    };
    let before = used();
    fs.set_capacity(Some(before));
    let owned = sections(2, 400);
    let refusals = [0; 2].map(|_| match log.append(&borrowed(&owned)).unwrap_err() {
        AppendError::DiskFull { bytes_needed, .. } => bytes_needed,
        refused => panic!("{refused}"),
    });
    fs.set_capacity(None);
    append(&mut log, 2, 400);
    assert_eq!(refusals, [used() - before; 2], "as much as it takes then");
    log.sync().unwrap();
    assert_eq!(segment_paths(&fs, Path::new(DIR)).len(), 1);
    assert_eq!(contents(&log.handle()), [sections(1, 100), owned]);
}

#[test]
fn a_log_starts_on_a_full_disk() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    append(&mut log, 1, 500);
    drop(log);
    let used: usize = fs.paths().iter().map(|p| fs.read(p).unwrap().len()).sum();
    fs.set_capacity(Some(used as u64));
    let (log, recovery) = open(&fs);
    assert_eq!(recovery.frames, 1);
    drop(log);
    fs.crash(3);
    assert_eq!(open(&fs).1.frames, 1, "what was shown is durable");
}

#[test]
fn a_start_on_a_full_disk_does_not_cut_a_segment_with_a_hard_link() {
    for is_linked in [false, true] {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        append(&mut log, 1, 500);
        log.sync().unwrap();
        drop(log);
        let path = segment_paths(&fs, Path::new(DIR)).remove(0);
        let mut bytes = fs.read(&path).unwrap();
        bytes.extend([7; 100]);
        fs.put(&path, &bytes);
        if is_linked {
            fs.link(&path, Path::new("/log/backup"));
        }
        let used: usize = fs.paths().iter().map(|p| fs.read(p).unwrap().len()).sum();
        fs.set_capacity(Some(used as u64));
        let (log, recovery) = open(&fs);
        assert!(recovery.cut.is_some());
        assert_eq!(contents(&log.handle()), [sections(1, 500)]);
        drop(log);
        assert_eq!(fs.read(&path).unwrap() == bytes, is_linked);
        // The next start finds the same as it would have without a full disk.
        fs.set_capacity(None);
        let (mut log, recovery) = open(&fs);
        assert_eq!(recovery.cut.is_some(), is_linked);
        append(&mut log, 2, 100);
        log.sync().unwrap();
        drop(log);
        let expected = [sections(1, 500), sections(2, 100)];
        assert_eq!(contents(&open(&fs).0.handle()), expected);
        let backup = fs.read(Path::new("/log/backup"));
        assert!(backup.is_none_or(|backup| backup == bytes));
    }
}

#[test]
fn released_segments_do_not_come_back_after_a_power_cut() {
    for seed in 0..20 {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        for frame in 0..10 {
            append(&mut log, frame, 500);
        }
        let end = log.sync().unwrap();
        assert!(log.handle().release(end).unwrap() > 1);
        drop(log);
        fs.crash(seed);
        assert_eq!(segment_paths(&fs, Path::new(DIR)).len(), 1);
    }
}
