//! Target `recovery`: opens a log of arbitrary bytes.

use millrace_blocks::store_into;
use millrace_log::testing::MemoryFs;
use millrace_log::testing::bytes::reseal_segment;
use millrace_log::{
    AppendError, Log, LogHandle, LogOptions, Position, Section, SectionHeader, UnreadableKind,
    inspect,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/log";

/// Opens a log of two segments.
///
/// The input's first byte chooses whether their checksums are corrected and, in steps of 1/127,
/// how much of the rest is the first segment.
///
/// # Panics
///
/// If the log does not open, has other content the second time, or accepts no further frame.
pub fn recovery(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let (first, second) = data.split_at(data.len() * usize::from(choice >> 1) / 127);
    let fs = MemoryFs::new();
    // The reserve file is present, so that a start need not create it.
    fs.put(&Path::new(DIR).join("reserve"), b"");
    for (number, bytes) in [(1, first), (2, second)] {
        let mut bytes = bytes.to_vec();
        if choice & 1 == 1 {
            reseal_segment(&mut bytes, number);
        }
        if !bytes.is_empty() {
            fs.put(&PathBuf::from(format!("{DIR}/{number:020}.log")), &bytes);
        }
    }
    if is_of_another_version(&fs) {
        return;
    }
    let (log, recovery) = open(&fs);
    let found = read(&log.handle());
    assert_eq!(recovery.frames, found.len() as u64, "all that was counted");
    assert!(found.is_sorted_by(|a, b| a.0 < b.0), "in order");
    drop(log);
    let (mut log, again) = open(&fs);
    assert_eq!(again.cut, None, "it is cut once");
    assert_eq!((again.frames, again.rows), (recovery.frames, recovery.rows));
    assert!(read(&log.handle()) == found, "the same the second time");
    append_and_read(&mut log, &found);
}

fn is_of_another_version(fs: &MemoryFs) -> bool {
    let seen = inspect(fs, Path::new(DIR), &mut |_| {}).unwrap();
    seen.segments.iter().any(|segment| {
        let mut kinds = segment.unreadable.iter().map(|range| range.kind);
        kinds.any(|kind| {
            [UnreadableKind::NewerVersion, UnreadableKind::OlderVersion].contains(&kind)
        })
    })
}

fn open(fs: &MemoryFs) -> (Log, millrace_log::Recovery) {
    let options = LogOptions {
        dir: PathBuf::from(DIR),
        segment_bytes: 512,
        bytes_max: 1 << 20,
    };
    Log::open(options, Arc::new(fs.clone())).unwrap()
}

/// Position and blocks of each frame.
type Frames = Vec<(Position, Vec<u8>)>;

fn read(handle: &LogHandle) -> Frames {
    let mut reader = handle.reader(Position::FIRST);
    let mut found = Vec::new();
    while let Some(frame) = reader.next().unwrap() {
        let mut blocks = Vec::new();
        for section in &frame.sections {
            blocks.extend_from_slice(&reader.read_blocks(section).unwrap());
        }
        found.push((frame.position, blocks));
    }
    found
}

/// Appends a further frame and asserts that it is read after all others.
fn append_and_read(log: &mut Log, found: &Frames) {
    let header = SectionHeader::default();
    let mut blocks = Vec::new();
    store_into(b"a further row", &mut blocks);
    let section = Section {
        header: &header,
        blocks: &blocks,
    };
    let position = match log.append(&[section]) {
        // A header of the input has the last possible sequence number.
        Err(AppendError::Invalid("the log has no sequence left")) => return,
        appended => appended.unwrap(),
    };
    log.sync().unwrap();
    let after = read(&log.handle());
    assert!(after.starts_with(found) && after.len() == found.len() + 1);
    assert!(after.last() == Some(&(position, blocks)));
}
