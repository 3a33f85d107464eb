//! Helpers of the tests.

use millrace_blocks::store_into;
use millrace_log::fs::Fs;
use millrace_log::testing::{MemoryFs, SeededRng};
use millrace_log::{
    Frame, Log, LogHandle, LogOptions, OpenError, Position, Recovery, Section, SectionHeader,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const DIR: &str = "/log";

pub fn options() -> LogOptions {
    LogOptions {
        dir: PathBuf::from(DIR),
        segment_bytes: 2048,
        bytes_max: 32 * 1024,
    }
}

pub fn try_open(fs: &MemoryFs) -> Result<(Log, Recovery), OpenError> {
    Log::open(options(), Arc::new(fs.clone()))
}

pub fn open(fs: &MemoryFs) -> (Log, Recovery) {
    try_open(fs).unwrap()
}

/// A section: its header and its blocks.
pub type OwnedSection = (SectionHeader, Vec<u8>);

/// Sections that differ from seed to seed, with as many bytes of blocks, about.
pub fn sections(seed: u64, blocks_bytes: usize) -> Vec<OwnedSection> {
    let mut rng = SeededRng::new(seed);
    let count = 1 + rng.below(3) as usize;
    (0..count)
        .map(|index| {
            let keys: Vec<_> = (0..rng.below(3))
                .map(|_| [rng.next_u64() as u8; 24])
                .collect();
            let header = SectionHeader {
                insert_target: format!("events(a,b{index})"),
                month: 202_601 + index as u32,
                rows: 1 + rng.below(100) as u32,
                uncompressed_bytes: rng.below(1 << 40),
                keys,
            };
            let bytes = blocks_bytes / count + index;
            let mut noise: Vec<u8> = (0..bytes).map(|_| rng.next_u64() as u8).collect();
            // The header of a block takes its part.
            noise.truncate(bytes.saturating_sub(25).max(1));
            let mut blocks = Vec::new();
            store_into(&noise, &mut blocks);
            (header, blocks)
        })
        .collect()
}

pub fn borrowed(owned: &[OwnedSection]) -> Vec<Section<'_>> {
    owned
        .iter()
        .map(|(header, blocks)| Section { header, blocks })
        .collect()
}

pub fn append(log: &mut Log, seed: u64, blocks_bytes: usize) -> Position {
    let owned = sections(seed, blocks_bytes);
    log.append(&borrowed(&owned)).unwrap()
}

/// A closed log of two frames: the first holds a text with one damaged byte; the second is
/// `sections(2, 100)`.
pub fn damaged_first(text: &[u8], damaged_at: usize) -> MemoryFs {
    let fs = MemoryFs::new();
    let (mut log, _) = open(&fs);
    let mut blocks = Vec::new();
    store_into(text, &mut blocks);
    let owned = [(SectionHeader::default(), blocks)];
    let position = log.append(&borrowed(&owned)).unwrap();
    append(&mut log, 2, 100);
    log.sync().unwrap();
    drop(log);
    let path = segment_paths(&fs, Path::new(DIR)).remove(0);
    let mut bytes = fs.read(&path).unwrap();
    bytes[position.offset as usize + damaged_at] ^= 1;
    fs.put(&path, &bytes);
    fs
}

/// Every frame from a position on, with its contents.
pub fn read_from(handle: &LogHandle, from: Position) -> Vec<(Frame, Vec<OwnedSection>)> {
    let mut reader = handle.reader(from);
    let mut frames = Vec::new();
    while let Some(frame) = reader.next().unwrap() {
        let contents = frame.sections.iter().map(|section| {
            let blocks = reader.read_blocks(section).unwrap();
            assert_eq!(blocks.len() as u64, section.blocks_bytes);
            (section.header.clone(), blocks.to_vec())
        });
        let contents = contents.collect();
        frames.push((frame, contents));
    }
    frames
}

/// The contents of every frame.
pub fn contents(handle: &LogHandle) -> Vec<Vec<OwnedSection>> {
    let frames = read_from(handle, Position::FIRST);
    frames.into_iter().map(|(_, contents)| contents).collect()
}

/// The segment files, oldest first.
pub fn segment_paths(fs: &dyn Fs, dir: &Path) -> Vec<PathBuf> {
    let mut names = fs.list(dir).unwrap();
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    names.iter().map(|name| dir.join(name)).collect()
}
