//! Encodes Parquet by hand: files that no writer would produce.

use std::io::Write;

/// Types of Thrift's compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Numbers of codecs, encodings and types in Parquet.
pub(super) mod number {
    pub(in super::super) const SNAPPY: i64 = 1;
    pub(in super::super) const GZIP: i64 = 2;
    pub(in super::super) const BROTLI: i64 = 4;
    pub(in super::super) const ZSTD: i64 = 6;
    pub(in super::super) const PLAIN: i64 = 0;
    pub(in super::super) const DELTA_LENGTH: i64 = 6;
    pub(in super::super) const DELTA_BYTE_ARRAY: i64 = 7;
    pub(in super::super) const DICTIONARY: i64 = 8;
    pub(in super::super) const INT32: i64 = 1;
    pub(in super::super) const INT96: i64 = 3;
    pub(in super::super) const BYTE_ARRAY: i64 = 6;
}

/// Writes fields of structs, each with the step from the last field's number.
#[derive(Clone, Debug, Default)]
pub(super) struct ThriftWriter(pub(super) Vec<u8>);

impl ThriftWriter {
    pub(super) fn varint(mut self, mut number: u64) -> Self {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    fn number(self, number: i64) -> Self {
        self.varint(((number << 1) ^ (number >> 63)) as u64)
    }

    fn header(mut self, step: u8, kind: u8) -> Self {
        self.0.push(step << 4 | kind);
        self
    }

    pub(super) fn i32(self, step: u8, value: i64) -> Self {
        self.header(step, I32).number(value)
    }

    pub(super) fn i64(self, step: u8, value: i64) -> Self {
        self.header(step, I64).number(value)
    }

    pub(super) fn text(self, step: u8, text: &str) -> Self {
        self.header(step, BINARY).bare_text(text)
    }

    fn bare_text(self, text: &str) -> Self {
        let mut wire = self.varint(text.len() as u64);
        wire.0.extend_from_slice(text.as_bytes());
        wire
    }

    fn list(mut self, step: u8, kind: u8, count: u64) -> Self {
        self = self.header(step, LIST);
        self.0.push(0xf0 | kind);
        self.varint(count)
    }

    pub(super) fn structs(self, step: u8, count: u64) -> Self {
        self.list(step, STRUCT, count)
    }

    fn open(self, step: u8) -> Self {
        self.header(step, STRUCT)
    }

    pub(super) fn end(mut self) -> Self {
        self.0.push(0);
        self
    }

    /// Writes an element of a schema with children.
    pub(super) fn group(self, name: &str, children: i64) -> Self {
        self.i32(3, 0).text(1, name).i32(1, children).end()
    }

    /// Makes a file with nothing but this footer.
    pub(super) fn footer_alone(self) -> Vec<u8> {
        with_footer(b"PAR1".to_vec(), &self)
    }
}

fn with_footer(mut file: Vec<u8>, footer: &ThriftWriter) -> Vec<u8> {
    file.extend_from_slice(&footer.0);
    file.write_all(&(footer.0.len() as u32).to_le_bytes())
        .unwrap();
    file.extend_from_slice(b"PAR1");
    file
}

/// A file of one column `a` with the given pages; or of several, `a0` and so on, which share them.
pub(super) struct SimpleFile {
    pub(super) columns: u64,
    pub(super) physical: i64,
    /// 0 for one value a row, 2 for any number.
    pub(super) repetition: i64,
    pub(super) codec: i64,
    pub(super) rows: i64,
    pub(super) dictionary: Option<(i64, Vec<u8>)>,
    pub(super) page: DataPage,
}

/// A data page.
pub(super) struct DataPage {
    pub(super) values: i64,
    pub(super) encoding: i64,
    pub(super) unpacked_bytes: Option<i64>,
    pub(super) checksum: Option<i64>,
    pub(super) bytes: Vec<u8>,
}

impl SimpleFile {
    pub(super) fn file(&self) -> Vec<u8> {
        let mut file = b"PAR1".to_vec();
        let start = file.len() as i64;
        let size = |wire: ThriftWriter, unpacked: i64, bytes: &[u8]| {
            wire.i32(1, unpacked).i32(1, bytes.len() as i64)
        };
        if let Some((values, bytes)) = &self.dictionary {
            let header = size(ThriftWriter::default().i32(1, 2), bytes.len() as i64, bytes);
            let header = header
                .open(4)
                .i32(1, *values)
                .i32(1, number::PLAIN)
                .end()
                .end();
            file.extend_from_slice(&header.0);
            file.extend_from_slice(bytes);
        }
        let data_start = file.len() as i64;
        let page = &self.page;
        let unpacked = page.unpacked_bytes.unwrap_or(page.bytes.len() as i64);
        let header = size(ThriftWriter::default().i32(1, 0), unpacked, &page.bytes);
        let inner = match page.checksum {
            Some(checksum) => header.i32(1, checksum).open(1),
            None => header.open(2),
        };
        let inner = inner.i32(1, page.values).i32(1, page.encoding);
        let header = inner.i32(1, 3).i32(1, 3).end().end();
        file.extend_from_slice(&header.0);
        file.extend_from_slice(&page.bytes);
        let bytes = file.len() as i64 - start;

        let bounds = [start, data_start, bytes];
        with_footer(file, &self.footer(bounds))
    }

    fn name(&self, column: u64) -> String {
        match self.columns {
            1 => "a".to_owned(),
            _ => format!("a{column}"),
        }
    }

    /// Footer of the file: the schema, a row group, the end.
    fn footer(&self, [start, data_start, bytes]: [i64; 3]) -> ThriftWriter {
        let mut wire = ThriftWriter::default()
            .i32(1, 1)
            .structs(1, self.columns + 1);
        wire = wire.group("root", self.columns as i64);
        for column in 0..self.columns {
            let column = self.name(column);
            let element = wire.i32(1, self.physical).i32(2, self.repetition);
            wire = element.text(1, &column).end();
        }
        wire = wire
            .i64(1, self.rows)
            .structs(1, 1)
            .structs(1, self.columns);
        for column in 0..self.columns {
            let about = wire.i64(2, start).open(1).i32(1, self.physical);
            let about = about.list(1, I32, 1).number(self.page.encoding);
            let about = about.list(1, BINARY, 1).bare_text(&self.name(column));
            let about = about.i32(1, self.codec).i64(1, self.page.values);
            let mut about = about.i64(1, bytes).i64(1, bytes).i64(2, data_start);
            if self.dictionary.is_some() {
                about = about.i64(2, start);
            }
            wire = about.end().end();
        }
        wire.i64(1, bytes).i64(1, self.rows).end().end()
    }
}
