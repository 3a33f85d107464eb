//! Zip archives: their entries, and the bytes of an entry.
//!
//! The `zip` crate's reader of an entry borrows its archive. Ours owns the file: it reads from the
//! offset that the crate finds, and verifies the checksum at the end.

use super::SourceFile;
use crc32fast::Hasher;
use flate2::read::DeflateDecoder;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use zip::{CompressionMethod, ZipArchive};

/// Lists the files in an archive, in the order of their names.
pub(super) fn entries(path: &Path) -> io::Result<Vec<SourceFile>> {
    let mut archive = ZipArchive::new(File::open(path)?)?;
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index)?;
        let name = entry.name()?.into_owned();
        if entry.is_file() && !name.starts_with("__MACOSX/") {
            files.push(SourceFile {
                path: path.to_owned(),
                entry: Some(name),
                bytes: entry.compressed_size(),
            });
        }
    }
    files.sort_by(|one, other| one.entry.cmp(&other.entry));
    Ok(files)
}

/// Opens an entry. `wrap` is given the archive's file, at the entry's first byte.
pub(super) fn open(
    path: &Path,
    name: &str,
    wrap: impl FnOnce(io::Take<File>) -> Box<dyn Read + Send>,
) -> io::Result<Box<dyn Read + Send>> {
    let mut archive = ZipArchive::new(File::open(path)?)?;
    let entry = archive.by_name(name)?;
    let start = entry.data_start().unwrap_or_default();
    let (length, method, checksum) = (entry.compressed_size(), entry.compression(), entry.crc32());
    if entry.encrypted() {
        return Err(io::Error::other(
            "the entry is encrypted; unpack the archive first",
        ));
    }
    drop(entry);
    let mut file = archive.into_inner();
    file.seek(SeekFrom::Start(start))?;
    let packed = wrap(file.take(length));
    let unpacked: Box<dyn Read + Send> = match method {
        CompressionMethod::Stored => packed,
        CompressionMethod::Deflated => Box::new(DeflateDecoder::new(packed)),
        other => {
            let message = format!("{other} is not supported in zip archives; unpack it first");
            return Err(io::Error::other(message));
        }
    };
    Ok(Box::new(ChecksumReader {
        inner: unpacked,
        hasher: Hasher::new(),
        checksum,
    }))
}

/// Reads an entry and compares its checksum at the end.
struct ChecksumReader {
    inner: Box<dyn Read + Send>,
    hasher: Hasher,
    checksum: u32,
}

impl Read for ChecksumReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        if length == 0 && !buffer.is_empty() && self.hasher.clone().finalize() != self.checksum {
            let message = "the archive is damaged: the checksum differs; get it again";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        self.hasher.update(buffer.get(..length).unwrap_or_default());
        Ok(length)
    }
}
