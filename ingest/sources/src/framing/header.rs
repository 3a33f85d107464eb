//! Header of CSV: the names of the columns.

use super::buffer::Buffer;
use crate::FileError;
use std::collections::HashSet;

/// Most bytes of a header: every row is written with it.
const HEADER_BYTES_MAX: usize = 1 << 20;
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Delimiters that are detected.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Names of columns, as JSON with a colon at the end.
#[derive(Debug, Default)]
pub(super) struct Header(Vec<Vec<u8>>);

impl Header {
    /// Skips a byte order mark of UTF-8 and returns its length; refuses other marks.
    pub(super) fn check_encoding(buffer: &mut Buffer) -> Result<u64, FileError> {
        while buffer.unread().len() < BOM.len() && buffer.fill()? {}
        let unread = buffer.unread();
        if unread.starts_with(b"\xff\xfe") || unread.starts_with(b"\xfe\xff") {
            return Err(malformed("The file is UTF-16. Convert it to UTF-8."));
        }
        if !unread.starts_with(BOM) {
            return Ok(0);
        }
        buffer.consume(BOM.len());
        Ok(BOM.len() as u64)
    }

    /// Detects the delimiter: the one that the first line has most of, outside quotes.
    pub(super) fn find_delimiter(buffer: &mut Buffer) -> Result<u8, FileError> {
        while memchr::memchr(b'\n', buffer.unread()).is_none() && buffer.unread().len() < 1 << 20 {
            if !buffer.fill()? {
                break;
            }
        }
        let mut is_quoted = false;
        let mut counts = [0; DELIMITERS.len()];
        for byte in buffer.unread() {
            match byte {
                b'"' => is_quoted = !is_quoted,
                b'\n' if !is_quoted => break,
                other if !is_quoted => {
                    for (count, delimiter) in counts.iter_mut().zip(DELIMITERS) {
                        *count += usize::from(*other == delimiter);
                    }
                }
                _ => {}
            }
        }
        let mut best = (0, b',');
        for (count, delimiter) in counts.into_iter().zip(DELIMITERS) {
            if count > best.0 {
                best = (count, delimiter);
            }
        }
        Ok(best.1)
    }

    /// Reads the names in the first row.
    pub(super) fn of(fields: &[&[u8]]) -> Result<Self, FileError> {
        let bytes: usize = fields.iter().map(|field| field.len()).sum();
        if bytes > HEADER_BYTES_MAX {
            return Err(too_long());
        }
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut known = HashSet::new();
        for field in fields {
            let name = std::str::from_utf8(field)
                .map_err(|_| malformed("The header is not UTF-8. Convert the file to UTF-8."))?;
            let mut written = serde_json::to_vec(name.trim()).unwrap_or_default();
            written.push(b':');
            if !known.insert(written.clone()) {
                let name = name.trim();
                return Err(malformed(format!(
                    "Two columns are called {name:?}. Rename one."
                )));
            }
            names.push(written);
        }
        Ok(Self(names))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends a row as a JSON object of texts. Fields without a name get a number. Invalid UTF-8
    /// is replaced, as such a row is an error anyway.
    pub(super) fn write<'a>(
        &self,
        json: &mut Vec<u8>,
        fields: impl Iterator<Item = &'a [u8]>,
        field_bytes_max: usize,
    ) {
        json.push(b'{');
        let mut names = self.0.iter();
        for (index, field) in fields.enumerate() {
            if index > 0 {
                json.push(b',');
            }
            match names.next() {
                Some(name) => json.extend_from_slice(name),
                None => json.extend_from_slice(format!("\"column {}\":", index + 1).as_bytes()),
            }
            let field = field
                .get(..field.len().min(field_bytes_max))
                .unwrap_or_default();
            let text = String::from_utf8_lossy(field);
            // Writing texts to memory does not fail.
            let _ = serde_json::to_writer(&mut *json, &text);
        }
        json.push(b'}');
    }
}

/// Error for a header that is too long.
pub(super) fn too_long() -> FileError {
    malformed("The header is longer than 1 MiB. Is there a quote that is never closed?")
}

fn malformed(message: impl Into<String>) -> FileError {
    FileError::Malformed {
        offset: 0,
        message: message.into(),
    }
}
