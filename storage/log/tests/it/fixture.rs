//! Fixtures: the bytes of every format since version 2 stay readable. A change that breaks
//! `the_format_is_these_bytes` needs a new directory, which `UPDATE=1` writes, and a new version if
//! earlier programs cannot read it; the old one stays.

use crate::support::{DIR, append, contents, open, sections};
use millrace_log::fs::DiskFs;
use millrace_log::testing::MemoryFs;
use millrace_log::{Log, LogOptions};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILES: [&str; 3] = [
    "00000000000000000001.log",
    "00000000000000000002.log",
    "checkpoint",
];

fn fixture(version: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("tests/fixtures").join(version)
}

/// Writes the log that the fixture was made from: three frames, the last in a segment of its own.
fn written() -> MemoryFs {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    append(&mut log, 1, 200);
    append(&mut log, 2, 333);
    append(&mut log, 3, 1500);
    log.sync().unwrap();
    log.handle().store_checkpoint(b"a checkpoint").unwrap();
    fs
}

/// Directory of the format as it is: version 2, with the salt of the segment before in a header.
const PRESENT: &str = "v2_salt_before";

#[test]
fn the_format_is_these_bytes() {
    let log = written();
    for name in FILES {
        let now = log.read(&Path::new(DIR).join(name)).unwrap();
        if std::env::var_os("UPDATE").is_some() {
            fs::write(fixture(PRESENT).join(name), written_part(&now)).unwrap();
        }
        let then = fs::read(fixture(PRESENT).join(name)).unwrap();
        assert!(written_part(&now) == written_part(&then), "{name} differs");
    }
}

/// Returns a file without the zeros at its end: the preallocated size is not part of the format.
fn written_part(bytes: &[u8]) -> &[u8] {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    &bytes[..last.map_or(0, |last| last + 1)]
}

#[test]
fn logs_of_frame_version_2_are_read_with_and_without_a_salt_before() {
    let expected = [(1, 200), (2, 333), (3, 1500)].map(|(seed, bytes)| sections(seed, bytes));
    for version in ["v2", PRESENT] {
        let dir = tempfile::tempdir().unwrap();
        for name in FILES {
            fs::copy(fixture(version).join(name), dir.path().join(name)).unwrap();
        }
        let options = LogOptions {
            dir: dir.path().to_owned(),
            segment_bytes: 4096,
            bytes_max: 1 << 20,
        };
        let (log, recovery) = Log::open(options, Arc::new(DiskFs)).unwrap();
        assert_eq!((recovery.frames, recovery.segments), (3, 2));
        assert!(!recovery.is_damaged() && recovery.cut.is_none());
        assert_eq!(contents(&log.handle()), expected, "{version}");
        let checkpoint = log.handle().load_checkpoint().unwrap();
        assert_eq!(checkpoint.as_deref(), Some(&b"a checkpoint"[..]));
    }
}
