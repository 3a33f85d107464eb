//! Disks that answer for some of their sectors with an error.

use crate::support::{DIR, OwnedSection, append, contents, read_from, segment_paths};
use millrace_log::testing::MemoryFs;
use millrace_log::{Frame, Log, LogHandle, LogOptions, Position, ReadError, Recovery, inspect};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a sector, which a disk reads wholly or not at all.
const SECTOR: u64 = 4096;

fn open(fs: &MemoryFs) -> (Log, Recovery) {
    let options = LogOptions {
        dir: DIR.into(),
        segment_bytes: 1 << 18,
        bytes_max: 1 << 22,
    };
    Log::open(options, Arc::new(fs.clone())).unwrap()
}

/// A disk with two segments of frames, about a sector each, and the frames.
fn logged() -> (MemoryFs, Vec<(Frame, Vec<OwnedSection>)>) {
    let fs = MemoryFs::new();
    for run in 0..2 {
        let (mut log, _) = open(&fs);
        for seed in 0..8 {
            append(&mut log, run * 8 + seed, 3000);
        }
        log.sync().unwrap();
    }
    let frames = read_from(&open(&fs).0.handle(), Position::FIRST);
    assert_eq!(frames.len(), 16);
    (fs, frames)
}

fn copy_of(fs: &MemoryFs) -> MemoryFs {
    let copy = MemoryFs::new();
    for path in fs.paths() {
        copy.put(&path, &fs.read(&path).unwrap());
    }
    copy
}

/// Frames that a reader gets by skipping damage.
fn read_past(handle: &LogHandle) -> Vec<Vec<OwnedSection>> {
    let mut reader = handle.reader(Position::FIRST);
    let mut read = Vec::new();
    loop {
        match reader.next() {
            Ok(None) => return read,
            Ok(Some(frame)) => {
                let sections = frame.sections.iter().map(|section| {
                    let blocks = reader.read_blocks(section);
                    blocks.map(|blocks| (section.header.clone(), blocks.to_vec()))
                });
                match sections.collect::<Result<Vec<_>, ReadError>>() {
                    Ok(sections) => read.push(sections),
                    Err(error) => assert!(matches!(error, ReadError::Corrupt { .. }), "{error}"),
                }
            }
            Err(error) => {
                assert!(matches!(error, ReadError::Corrupt { .. }), "{error}");
                reader.skip_damage().unwrap().unwrap();
            }
        }
    }
}

#[test]
fn an_unreadable_sector_loses_only_its_frames_and_is_reported_as_damage() {
    let (sound, frames) = logged();
    let paths = segment_paths(&sound, Path::new(DIR));
    for (segment, path) in (1..).zip(&paths[..2]) {
        let of_segment = frames.iter().filter(|it| it.0.position.segment == segment);
        let end = of_segment.map(|it| it.0.end.offset).max().unwrap();
        for sector in (0..end).step_by(SECTOR as usize) {
            let bad = sector..sector + SECTOR;
            let is_sound = |frame: &Frame| {
                let is_beside = frame.end.offset <= bad.start || bad.end <= frame.position.offset;
                // Without the salt at its start nothing in a segment can be trusted, unless there
                // is a next one, which has it, too.
                frame.position.segment != segment || (is_beside && (sector > 0 || segment == 1))
            };
            let kept = frames.iter().filter(|(frame, _)| is_sound(frame));
            let kept: Vec<_> = kept.map(|(_, sections)| sections.clone()).collect();

            let fs = copy_of(&sound);
            fs.set_unreadable(path, bad.clone());
            let case = format!("segment {segment} at {sector}");
            let seen = inspect(&fs, Path::new(DIR), &mut |_| {}).unwrap();
            assert!(
                seen.segments.iter().any(|it| !it.unreadable.is_empty()),
                "{case}"
            );
            let (log, recovery) = open(&fs);
            assert!(recovery.is_damaged(), "{case}: {recovery:?}");
            assert_eq!(recovery.cut, None, "{case}: it may have been synced");
            assert_eq!(contents(&log.handle()), kept, "{case}");
            drop(log);
            let (log, _) = open(&fs);
            assert_eq!(contents(&log.handle()), kept, "{case}, again");

            // Again with a log that was sound when it was opened.
            let fs = copy_of(&sound);
            let (log, recovery) = open(&fs);
            assert!(!recovery.is_damaged());
            fs.set_unreadable(path, bad);
            if sector > 0 {
                // A frame that ends in the sector may have all its blocks before it.
                let read = read_past(&log.handle());
                assert!(
                    kept.iter().all(|it| read.contains(it)),
                    "{case}, while it runs"
                );
                assert!(
                    read.iter()
                        .all(|it| frames.iter().any(|frame| frame.1 == *it))
                );
            }
        }
    }
}

#[test]
fn an_unreadable_checkpoint_is_moved_away() {
    let (fs, frames) = logged();
    let (log, _) = open(&fs);
    log.handle().store_checkpoint(b"shipped").unwrap();
    drop(log);
    fs.set_unreadable(&Path::new(DIR).join("checkpoint"), 0..1);
    let (log, recovery) = open(&fs);
    assert!(recovery.checkpoint_damaged.is_some());
    assert_eq!(contents(&log.handle()).len(), frames.len());
}
