//! The checkpoint: the old one or the new one, whole, or moved away with a report.

use crate::support::{DIR, append, open};
use millrace_log::testing::{Fault, FaultKind, MemoryFs};
use millrace_log::{CHECKPOINT_BYTES_MAX, CheckpointError, Position};
use std::path::Path;

#[test]
fn the_latest_checkpoint_is_loaded_also_by_the_next_process() {
    let fs = MemoryFs::new();
    let (log, _) = open(&fs);
    assert_eq!(log.handle().load_checkpoint().unwrap(), None);
    for bytes in [&b"first"[..], b"", b"third and last"] {
        log.handle().store_checkpoint(bytes).unwrap();
        let loaded = log.handle().load_checkpoint().unwrap();
        assert_eq!(loaded.as_deref(), Some(bytes));
    }
    drop(log);
    fs.crash(1);
    let loaded = open(&fs).0.handle().load_checkpoint().unwrap();
    assert_eq!(loaded.as_deref(), Some(&b"third and last"[..]));
}

#[test]
fn every_flipped_bit_and_every_cut_is_an_error() {
    let fs = MemoryFs::new();
    let (log, _) = open(&fs);
    let handle = log.handle();
    handle.store_checkpoint(b"position 3:64").unwrap();
    let path = Path::new(DIR).join("checkpoint");
    let whole = fs.read(&path).unwrap();
    let flipped = (0..whole.len() * 8).map(|bit| {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
    for bytes in flipped.chain(cut) {
        fs.put(&path, &bytes);
        let error = handle.load_checkpoint().unwrap_err();
        assert!(matches!(error, CheckpointError::Corrupt { .. }), "{error}");
    }
}

#[test]
fn impossible_numbers_are_an_error() {
    let fs = MemoryFs::new();
    let (log, _) = open(&fs);
    let handle = log.handle();
    handle.store_checkpoint(b"").unwrap();
    let path = Path::new(DIR).join("checkpoint");
    let whole = fs.read(&path).unwrap();
    // Numbers of the newest segment, and of the last frame.
    for at in [16, 24] {
        for (number, is_one) in [
            (u64::MAX / 2, true),
            (u64::MAX / 2 + 1, false),
            (u64::MAX, false),
        ] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            let crc = crc32fast::hash(&bytes[..36]);
            bytes[36..40].copy_from_slice(&crc.to_le_bytes());
            fs.put(&path, &bytes);
            let loaded = handle.load_checkpoint();
            assert_eq!(loaded.is_ok(), is_one, "{number} at {at}: {loaded:?}");
        }
    }
}

#[test]
fn a_damaged_checkpoint_is_moved_away_and_no_position_is_used_twice() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    let handle = log.handle();
    for _ in 0..40 {
        append(&mut log, 1, 500);
    }
    let end = log.sync().unwrap();
    handle.store_checkpoint(b"all of it is shipped").unwrap();
    assert!(handle.release(end).unwrap() > 0);
    drop((log, handle));
    let (path, damaged_path) = ["checkpoint", "checkpoint.damaged"]
        .map(|name| Path::new(DIR).join(name))
        .into();
    let mut damaged = fs.read(&path).unwrap();
    damaged[50] ^= 1;
    fs.put(&path, &damaged);
    // A power cut between two starts undoes nothing of it.
    for is_first in [true, false] {
        let (mut log, recovery) = open(&fs);
        assert_eq!(recovery.is_damaged(), is_first);
        let reported = recovery.checkpoint_damaged.as_deref();
        assert_eq!(reported, is_first.then_some(&*damaged_path));
        assert_eq!(log.handle().load_checkpoint().unwrap(), None);
        assert!(log.handle().synced() >= end, "a position comes twice");
        assert!(append(&mut log, 1, 500) >= end, "a position comes twice");
        drop(log);
        fs.crash(1);
    }
    assert_eq!(fs.read(&damaged_path).unwrap(), damaged);
}

#[test]
fn a_checkpoint_that_is_too_large_leaves_the_old_one() {
    let fs = MemoryFs::new();
    let (log, _) = open(&fs);
    let handle = log.handle();
    handle.store_checkpoint(b"old").unwrap();
    let refused = handle.store_checkpoint(&vec![0; CHECKPOINT_BYTES_MAX + 1]);
    assert!(matches!(refused, Err(CheckpointError::TooLarge { .. })));
    assert_eq!(handle.load_checkpoint().unwrap().unwrap(), b"old");
    let largest = vec![7; CHECKPOINT_BYTES_MAX];
    handle.store_checkpoint(&largest).unwrap();
    assert!(handle.load_checkpoint().unwrap().unwrap() == largest);
}

#[test]
fn on_a_full_disk_the_reserve_holds_the_largest_checkpoint() {
    let fs = MemoryFs::new();
    let (log, _) = open(&fs);
    log.handle().store_checkpoint(b"old").unwrap();
    let used: usize = fs.paths().iter().map(|p| fs.read(p).unwrap().len()).sum();
    fs.set_capacity(Some(used as u64));
    let largest = vec![7; CHECKPOINT_BYTES_MAX];
    log.handle().store_checkpoint(&largest).unwrap();
}

#[test]
fn on_a_full_disk_the_reserve_is_given_up_for_a_checkpoint() {
    let fs = MemoryFs::new();
    let (log, _) = open(&fs);
    let reserve = Path::new(DIR).join("reserve");
    let used = fs.read(&reserve).unwrap().len() as u64;
    fs.set_capacity(Some(used));
    let handle = log.handle();
    for n in 0..100u8 {
        handle.store_checkpoint(&[n; 1000]).unwrap();
    }
    assert_eq!(fs.read(&reserve), None, "it is given up");
    fs.set_capacity(Some(2100));
    let refused = handle.store_checkpoint(&[0; 3000]);
    assert!(matches!(refused, Err(CheckpointError::DiskFull)));
    assert_eq!(handle.load_checkpoint().unwrap().unwrap(), [99; 1000]);
    fs.set_capacity(None);
    handle.store_checkpoint(b"there is space again").unwrap();
    drop((log, handle));
    open(&fs);
    assert!(fs.read(&reserve).is_some(), "and moved away again");
}

#[test]
fn a_reserve_that_a_crash_left_short_is_made_whole_at_the_next_start() {
    for bytes in [0, 1, 100_000] {
        let fs = MemoryFs::new();
        drop(open(&fs));
        let reserve = Path::new(DIR).join("reserve");
        let whole = fs.read(&reserve).unwrap().len();
        fs.put(&reserve, &vec![0; bytes]);
        let (log, _) = open(&fs);
        assert_eq!(fs.read(&reserve).unwrap().len(), whole, "{bytes}");
        log.handle().store_checkpoint(b"old").unwrap();
        let used: usize = fs.paths().iter().map(|p| fs.read(p).unwrap().len()).sum();
        fs.set_capacity(Some(used as u64));
        let largest = vec![7; CHECKPOINT_BYTES_MAX];
        log.handle().store_checkpoint(&largest).unwrap();
    }
}

#[test]
fn the_reserve_is_allocated_again_when_segments_are_released() {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    for seed in 0..10 {
        append(&mut log, seed, 500);
    }
    let end = log.sync().unwrap();
    let reserve = Path::new(DIR).join("reserve");
    millrace_log::fs::Fs::unlink(&fs, &reserve).unwrap();
    assert_eq!(log.handle().release(Position::FIRST).unwrap(), 0);
    assert_eq!(fs.read(&reserve), None, "nothing has freed space");
    assert!(log.handle().release(end).unwrap() > 0);
    assert!(fs.read(&reserve).is_some());
}

#[test]
fn a_checkpoint_that_fails_on_a_failing_disk_poisons_the_log() {
    for after in 0.. {
        let fs = MemoryFs::new();
        let (log, _) = open(&fs);
        let kind = FaultKind::Io;
        fs.set_fault(Some(Fault { after, kind }));
        let stored = log.handle().store_checkpoint(b"new");
        if fs.has_fault() {
            stored.unwrap();
            assert!(after > 3, "it is made, written, synced and renamed");
            break;
        }
        let stopped = log.handle().failure().unwrap();
        assert_eq!(stored.unwrap_err().to_string(), stopped.to_string());
    }
}
