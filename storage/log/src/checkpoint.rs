//! The checkpoint: a few bytes of the shipper, replaced atomically.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `MILLRCKP` |
//! | 8 | 2 | version, 1 |
//! | 10 | 2 | zero |
//! | 12 | 4 | bytes of the body |
//! | 16 | 8 | highest segment number used when it was stored |
//! | 24 | 8 | highest sequence synced when it was stored |
//! | 32 | 4 | zero |
//! | 36 | 4 | CRC-32 over the bytes before and the body |
//! | 40 | … | the body |
//!
//! The two highest numbers keep positions from being used twice even if someone removes the
//! segments: a frame below a checkpoint would never be shipped.
//!
//! A damaged checkpoint is moved away when the log is opened, as if there had never been one: the
//! newest segment, which is never deleted, has the numbers, too.

use crate::CheckpointError;
use crate::bad_sectors::TolerantFile;
use crate::fail_point::{FailPoint, pass};
use crate::fields::{put, u16_at, u32_at, u64_at};
use crate::fs::{File, Fs, is_out_of_space};
use crate::reserve::{CHECKPOINT_BYTES_MAX, Reserve};
use crate::segment::NUMBER_MAX;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

pub(crate) const FILE_NAME: &str = "checkpoint";
/// Name that a damaged checkpoint gets.
const DAMAGED_NAME: &str = "checkpoint.damaged";
const TEMPORARY_NAME: &str = "checkpoint.tmp";

const MAGIC: u64 = u64::from_le_bytes(*b"MILLRCKP");
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 40;
const CRC_AT: usize = 36;

/// Highest numbers used so far: new segments and frames get higher ones.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct HighWater {
    pub segment: u64,
    pub sequence: u64,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct StoredCheckpoint {
    pub high_water: HighWater,
    pub bytes: Vec<u8>,
}

/// Stores a checkpoint. `Io` errors of this function mean that the disk fails.
pub(crate) fn store(
    fs: &dyn Fs,
    dir: &Path,
    reserve: &Reserve,
    high_water: HighWater,
    bytes: &[u8],
) -> Result<(), CheckpointError> {
    if bytes.len() > CHECKPOINT_BYTES_MAX {
        return Err(CheckpointError::TooLarge {
            bytes: bytes.len() as u64,
        });
    }
    let io = |source| CheckpointError::Io {
        path: dir.join(FILE_NAME),
        source,
    };
    pass(FailPoint::CheckpointDue);
    let mut written = write_temporary(fs, dir, high_water, bytes);
    if written.as_ref().is_err_and(is_out_of_space) && reserve.give_up(fs, dir) {
        fs.sync_dir(dir).map_err(io)?;
        written = write_temporary(fs, dir, high_water, bytes);
    }
    match written {
        Ok(()) => {}
        Err(error) if is_out_of_space(&error) => return Err(CheckpointError::DiskFull),
        Err(error) => return Err(io(error)),
    }
    pass(FailPoint::CheckpointWritten);
    fs.rename(&dir.join(TEMPORARY_NAME), &dir.join(FILE_NAME))
        .map_err(io)?;
    pass(FailPoint::CheckpointRenamed);
    fs.sync_dir(dir).map_err(io)?;
    pass(FailPoint::CheckpointStored);
    Ok(())
}

fn write_temporary(fs: &dyn Fs, dir: &Path, high_water: HighWater, bytes: &[u8]) -> io::Result<()> {
    let file = fs.create(&dir.join(TEMPORARY_NAME))?;
    // Allocated first: afterwards neither the write nor the sync can run out of space.
    file.allocate(0..(HEADER_BYTES + bytes.len()) as u64)?;
    let header = encode_header(high_water, bytes);
    file.write_at(&mut [IoSlice::new(&header), IoSlice::new(bytes)], 0)?;
    file.sync_data()
}

fn encode_header(high_water: HighWater, bytes: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    put(&mut header, 0, &MAGIC.to_le_bytes());
    put(&mut header, 8, &VERSION.to_le_bytes());
    // At most CHECKPOINT_BYTES_MAX, so it fits.
    put(&mut header, 12, &(bytes.len() as u32).to_le_bytes());
    put(&mut header, 16, &high_water.segment.to_le_bytes());
    put(&mut header, 24, &high_water.sequence.to_le_bytes());
    let crc = crc_of(&header, bytes);
    put(&mut header, CRC_AT, &crc.to_le_bytes());
    header
}

fn crc_of(header: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.get(..CRC_AT).unwrap_or_default());
    hasher.update(body);
    hasher.finalize()
}

pub(crate) fn load(fs: &dyn Fs, dir: &Path) -> Result<Option<StoredCheckpoint>, CheckpointError> {
    let path = dir.join(FILE_NAME);
    let bytes = match read(fs, &path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CheckpointError::Io { path, source }),
    };
    decode(&bytes, path).map(Some)
}

/// Loads the highest numbers from the checkpoint. A damaged one is moved away for inspection, and
/// its new path returned; the move is durable after the next sync of the directory.
pub(crate) fn load_high_water(
    fs: &dyn Fs,
    dir: &Path,
) -> Result<(HighWater, Option<PathBuf>), CheckpointError> {
    match load(fs, dir) {
        Ok(stored) => Ok((
            stored.map(|stored| stored.high_water).unwrap_or_default(),
            None,
        )),
        Err(CheckpointError::Corrupt { path, .. }) => {
            let moved = dir.join(DAMAGED_NAME);
            match fs.rename(&path, &moved) {
                Ok(()) => Ok((HighWater::default(), Some(moved))),
                Err(source) => Err(CheckpointError::Io { path, source }),
            }
        }
        Err(error) => Err(error),
    }
}

fn read(fs: &dyn Fs, path: &Path) -> io::Result<Vec<u8>> {
    // An unreadable checkpoint is damaged.
    let file = TolerantFile::new(fs.open(path)?);
    let bytes = file.len()?.min(2 * CHECKPOINT_BYTES_MAX as u64);
    let mut out = Vec::new();
    file.read_at(&mut out, bytes as usize, 0)?;
    Ok(out)
}

fn decode(bytes: &[u8], path: PathBuf) -> Result<StoredCheckpoint, CheckpointError> {
    let corrupt = |reason| CheckpointError::Corrupt {
        path: path.clone(),
        reason,
    };
    let (header, body) = bytes
        .split_at_checked(HEADER_BYTES)
        .ok_or_else(|| corrupt("it is cut short"))?;
    if u64_at(header, 0) != Some(MAGIC) {
        return Err(corrupt("it does not begin as one"));
    }
    if u32_at(header, CRC_AT) != Some(crc_of(header, body)) {
        return Err(corrupt("its checksum does not fit"));
    }
    if let Some(version) = u16_at(header, 8).filter(|&version| version != VERSION) {
        return Err(CheckpointError::Version { path, version });
    }
    let high_water = HighWater {
        segment: u64_at(header, 16).unwrap_or_default(),
        sequence: u64_at(header, 24).unwrap_or_default(),
    };
    if high_water.segment.max(high_water.sequence) > NUMBER_MAX {
        return Err(corrupt("its numbers are none"));
    }
    Ok(StoredCheckpoint {
        high_water,
        bytes: body.to_vec(),
    })
}
