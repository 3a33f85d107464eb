//! The log on the real file system.

use crate::support::{append, borrowed, contents, sections};
use millrace_log::fs::DiskFs;
use millrace_log::{Log, LogOptions, OpenError, Position, ReadError, inspect};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn options(dir: &Path) -> LogOptions {
    LogOptions {
        dir: dir.join("log"),
        segment_bytes: 64 * 1024,
        bytes_max: 1 << 20,
    }
}

fn open(dir: &Path) -> Result<Log, OpenError> {
    Log::open(options(dir), Arc::new(DiskFs)).map(|(log, _)| log)
}

#[test]
fn a_second_opener_is_told_that_the_directory_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    let refused = open(dir.path()).unwrap_err();
    assert!(matches!(&refused, OpenError::Locked { path } if path.ends_with("log/lock")));
    assert!(refused.to_string().contains("another process"));
    let handle = log.handle();
    drop(log);
    assert!(open(dir.path()).is_err(), "a handle still uses it");
    drop(handle);
    open(dir.path()).unwrap();
}

#[test]
fn frames_survive_reopening_and_release_frees_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for run in 0..3u64 {
        let mut log = open(dir.path()).unwrap();
        // More sections than one write takes.
        for seed in 0..4 {
            let blocks_bytes = 30_000 - seed as usize * 9000;
            append(&mut log, run * 10 + seed, blocks_bytes);
            expected.push(sections(run * 10 + seed, blocks_bytes));
        }
        let many: Vec<_> = (0..40).flat_map(|seed| sections(seed, 50)).collect();
        log.append(&borrowed(&many)).unwrap();
        expected.push(many);
        log.sync().unwrap();
        assert!(contents(&log.handle()) == expected);
    }
    let log = open(dir.path()).unwrap();
    let handle = log.handle();
    handle.store_checkpoint(b"all shipped").unwrap();
    assert!(handle.release(handle.synced()).unwrap() > 0);
    let left = fs::read_dir(dir.path().join("log")).unwrap();
    let left = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().ends_with(".log")
    });
    assert_eq!(left.count(), 1, "the newest stays");
    assert!(handle.usage().bytes_used < 200_000);
}

#[test]
fn a_log_makes_missing_parent_folders_and_refuses_a_file_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(&dir.path().join("not/there")).unwrap());
    assert!(dir.path().join("not/there/log/lock").is_file());
    let file = dir.path().join("file");
    fs::create_dir(&file).unwrap();
    fs::write(file.join("log"), "").unwrap();
    let refused = open(&file).unwrap_err();
    assert!(
        matches!(&refused, OpenError::Io { action: "make", .. }),
        "{refused}"
    );
}

#[test]
fn a_segment_is_preallocated_and_truncated_when_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path()).unwrap();
    let bytes_of = |number: u64| {
        let path = dir.path().join(format!("log/{number:020}.log"));
        fs::metadata(path).unwrap().len()
    };
    append(&mut log, 1, 100);
    let end = log.sync().unwrap();
    // A sixty-fourth of a segment.
    assert_eq!(bytes_of(1), 1024);
    append(&mut log, 2, 65_400);
    assert_eq!(log.sync().unwrap().segment, 2);
    assert_eq!(bytes_of(1), end.offset);
}

#[test]
fn a_log_is_inspected_while_in_use_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path()).unwrap();
    for seed in 0..5 {
        append(&mut log, seed, 20_000);
    }
    log.sync().unwrap();
    log.handle().store_checkpoint(b"where").unwrap();
    let log_dir = dir.path().join("log");
    let listing = |dir: &Path| {
        let mut files: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect();
        files.sort();
        files
    };
    let before = listing(&log_dir);
    let mut frames = Vec::new();
    let seen = inspect(&DiskFs, &log_dir, &mut |frame| frames.push(frame.clone())).unwrap();
    assert!(listing(&log_dir) == before);
    assert_eq!(frames.len(), 5);
    assert_eq!(frames[0].sections[0].header, sections(0, 20_000)[0].0);
    assert_eq!(seen.segments.iter().map(|s| s.frames).sum::<u64>(), 5);
    assert!(seen.segments.iter().all(|s| s.unreadable.is_empty()));
    assert_eq!(seen.checkpoint.unwrap().unwrap(), b"where");
}

#[test]
fn a_released_large_segment_frees_its_space_and_its_readers_get_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions {
        segment_bytes: 4 << 20,
        bytes_max: 64 << 20,
        ..options(dir.path())
    };
    let (mut log, _) = Log::open(options, Arc::new(DiskFs)).unwrap();
    // Twenty frames of 300 kB: more than one segment.
    for seed in 0..20 {
        append(&mut log, seed, 300_000);
    }
    log.sync().unwrap();
    let handle = log.handle();
    let mut reader = handle.reader(Position::FIRST);
    let frames: Vec<_> = (0..10).map(|_| reader.next().unwrap().unwrap()).collect();
    let path = dir.path().join("log");
    let oldest = fs::read_dir(&path).unwrap().map(|it| it.unwrap().path());
    let oldest = oldest.filter(|it| it.extension().is_some_and(|it| it == "log"));
    let oldest = fs::File::open(oldest.min().unwrap()).unwrap();
    assert!(handle.release(handle.synced()).unwrap() > 0);
    assert!(oldest.metadata().unwrap().len() <= 1 << 20);
    for frame in &frames {
        match reader.read_blocks(&frame.sections[0]) {
            Ok(_) => assert!(frame.end.offset <= 1 << 20),
            Err(error) => assert!(matches!(error, ReadError::Io { .. }), "{error}"),
        }
    }
    assert!(reader.read_blocks(&frames[9].sections[0]).is_err());
}

#[test]
fn a_segment_that_is_released_while_it_is_inspected_is_not_called_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions {
        segment_bytes: 16 << 20,
        bytes_max: 64 << 20,
        ..options(dir.path())
    };
    let (mut log, _) = Log::open(options, Arc::new(DiskFs)).unwrap();
    // More than is read at once, and more than one segment.
    for seed in 0..20 {
        append(&mut log, seed, 1_000_000);
    }
    log.sync().unwrap();
    let handle = log.handle();
    let mut frames = 0;
    let seen = inspect(&DiskFs, &dir.path().join("log"), &mut |_| {
        frames += 1;
        handle.release(handle.synced()).unwrap();
    });
    let seen = seen.unwrap();
    assert!((1..20).contains(&frames), "{frames}");
    assert_eq!(seen.segments.len(), 1, "the newest");
    assert!(seen.segments[0].unreadable.is_empty());
}

#[test]
fn readers_and_release_work_from_other_threads_while_the_log_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path()).unwrap();
    let handle = log.handle();
    let shipper = std::thread::spawn(move || {
        let mut reader = handle.reader(Position::FIRST);
        let mut shipped = Vec::new();
        while shipped.len() < 200 {
            match reader.next().unwrap() {
                Some(frame) => {
                    let blocks = reader.read_blocks(&frame.sections[0]).unwrap();
                    shipped.push((frame.sequence, blocks.len()));
                    handle.release(frame.end).unwrap();
                }
                None => std::thread::yield_now(),
            }
        }
        shipped
    });
    let mut appended = 0;
    while appended < 200 {
        let owned = sections(appended, 9000);
        // Full until the shipper has caught up.
        if log.append(&borrowed(&owned)).is_ok() {
            log.sync().unwrap();
            appended += 1;
        }
    }
    let expected: Vec<_> = (0..200)
        .map(|seed| (seed + 1, sections(seed, 9000)[0].1.len()))
        .collect();
    assert_eq!(shipper.join().unwrap(), expected);
}

#[test]
fn a_released_segment_leaves_a_hard_link_of_it_whole() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions {
        segment_bytes: 3 << 20,
        bytes_max: 1 << 30,
        ..options(dir.path())
    };
    let (mut log, _) = Log::open(options, Arc::new(DiskFs)).unwrap();
    let first = dir.path().join("log/00000000000000000001.log");
    let link = dir.path().join("backup");
    for seed in 0..3 {
        append(&mut log, seed, 2 << 20);
        log.sync().unwrap();
    }
    fs::hard_link(&first, &link).unwrap();
    let before = fs::read(&link).unwrap();
    let handle = log.handle();
    handle.store_checkpoint(b"all shipped").unwrap();
    assert!(handle.release(handle.synced()).unwrap() > 0);
    assert!(!first.exists() && before.len() > 2 << 20);
    assert!(fs::read(&link).unwrap() == before);
}
