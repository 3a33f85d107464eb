//! Decompression, by the first bytes and not by the name.

use super::{SourceFile, archive};
use flate2::read::MultiGzDecoder;
use millrace_sources::Input;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BUFFER_BYTES: usize = 256 << 10;

impl SourceFile {
    /// Its decompressed bytes from the beginning. `read_bytes` is told how many were read of it as it is on the disk;
    /// of plain files it is told nothing, as their positions say it.
    ///
    /// # Errors
    /// When it cannot be opened or is not what its first bytes say.
    pub fn open(&self, read_bytes: &Arc<AtomicU64>) -> io::Result<Input> {
        let count = |inner: Box<dyn Read + Send>| -> Box<dyn Read + Send> {
            Box::new(Counted {
                inner,
                bytes: Arc::clone(read_bytes),
            })
        };
        if self.is_stdin() {
            return decompressed(count(Box::new(io::stdin())));
        }
        if let Some(entry) = &self.entry {
            let opened = archive::open(&self.path, entry, |file| count(Box::new(file)))?;
            return decompressed(opened);
        }
        let mut file = File::open(&self.path)?;
        let mut beginning = [0; 4];
        let length = read_full(&mut file, &mut beginning)?;
        file.rewind()
            .or_else(|error| if is_pipe(&file) { Ok(()) } else { Err(error) })?;
        let beginning = beginning.get(..length).unwrap_or_default();
        if is_pipe(&file) {
            let again = Cursor::new(beginning.to_vec());
            return decompressed(count(Box::new(again.chain(file))));
        }
        if beginning.starts_with(GZIP) || beginning.starts_with(ZSTD) {
            return decompressed(count(Box::new(file)));
        }
        Ok(Input::Plain(file))
    }
}

/// What cannot be sought in is read once: a named pipe, a device.
fn is_pipe(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| !metadata.is_file())
}

fn decompressed(mut inner: Box<dyn Read + Send>) -> io::Result<Input> {
    let mut beginning = [0; 4];
    let length = read_full(&mut inner, &mut beginning)?;
    let beginning = beginning.get(..length).unwrap_or_default().to_vec();
    let is_gzip = beginning.starts_with(GZIP);
    let is_zstd = beginning.starts_with(ZSTD);
    let all = Cursor::new(beginning).chain(inner);
    Ok(Input::Stream(if is_gzip {
        let buffered = BufReader::with_capacity(BUFFER_BYTES, all);
        Box::new(MultiGzDecoder::new(buffered))
    } else if is_zstd {
        Box::new(zstd::Decoder::new(all)?)
    } else {
        Box::new(all)
    }))
}

fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(room) = buffer.get_mut(length..).filter(|room| !room.is_empty()) {
        match from.read(room) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Counts what passes.
struct Counted {
    inner: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.bytes.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}
