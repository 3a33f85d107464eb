//! Opens and decompresses files, by their first bytes and not by their names.

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
    /// Opens the decompressed bytes from the beginning.
    ///
    /// `read_bytes` counts the bytes read from the disk; but not of plain files, whose positions
    /// are counted instead.
    ///
    /// # Errors
    /// The file cannot be opened, or is not of the compression that its first bytes show.
    pub fn open(&self, read_bytes: &Arc<AtomicU64>) -> io::Result<Input> {
        let count = |inner: Box<dyn Read + Send>| -> Box<dyn Read + Send> {
            Box::new(CountingReader {
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

/// Returns true for a named pipe or a device, which has no seek and is read once.
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
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Counts the bytes read.
struct CountingReader {
    inner: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.bytes.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}
