//! The pages of a row group, each looked at before it is unpacked, and what is in it before it is decoded.

use super::budget::Budget;
use super::columns::Leaf;
use super::page::{PageHeader, grown_bytes, refused};
use super::values;
use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a header: of nearly all, and of any that is read.
const HEADER_BYTES: [usize; 2] = [4 << 10, 1 << 20];

pub(super) const TOO_MUCH: &str = "its columns take too much memory at once. Write it anew with smaller pages, or take out columns";

/// A row group whose batches have so many rows.
pub(super) struct Group {
    pub(super) file: Arc<File>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) index: usize,
    pub(super) leaves: Vec<Leaf>,
    pub(super) batch_rows: u64,
    pub(super) budget: Arc<Budget>,
}

impl Group {
    fn about(&self) -> Option<&RowGroupMetaData> {
        self.metadata.row_groups().get(self.index)
    }

    fn pages(&self, column: usize) -> Result<Box<dyn PageReader>> {
        let about = self.about().and_then(|group| group.columns().get(column));
        let (Some(about), Some(leaf)) = (about, self.leaves.get(column)) else {
            return Err(refused("a row group of it has too few columns"));
        };
        let chunk = Chunk {
            file: Arc::clone(&self.file),
            column,
            leaf: leaf.clone(),
            batch_rows: self.batch_rows,
            budget: Arc::clone(&self.budget),
            next: Mutex::new(None),
        };
        let pages = SerializedPageReader::new(Arc::new(chunk), about, self.num_rows(), None)?;
        Ok(Box::new(Pages {
            pages,
            column,
            leaf: leaf.clone(),
            batch_rows: self.batch_rows,
            budget: Arc::clone(&self.budget),
        }))
    }
}

impl RowGroups for Group {
    fn num_rows(&self) -> usize {
        let rows = self.about().map_or(0, RowGroupMetaData::num_rows);
        usize::try_from(rows).unwrap_or_default()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(Once(Some(self.pages(column)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.about().into_iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The only part of a column that is read.
struct Once(Option<Result<Box<dyn PageReader>>>);

impl Iterator for Once {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take()
    }
}

impl PageIterator for Once {}

/// The bytes of a column, from which the library reads a page's header and then its page.
struct Chunk {
    file: Arc<File>,
    column: usize,
    leaf: Leaf,
    batch_rows: u64,
    budget: Arc<Budget>,
    /// Where the page begins whose header was read last.
    next: Mutex<Option<(u64, PageHeader)>>,
}

impl Chunk {
    fn read(&self, start: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.file.read_at(room, start + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }
}

impl ChunkReader for Chunk {
    type T = Cursor<Vec<u8>>;

    /// A page's header, and some bytes behind it.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_some_and(|(data_start, _)| data_start == start) {
            // The header was read before, to see how many rows the page has.
            return Ok(Cursor::new(Vec::new()));
        }
        for length in HEADER_BYTES {
            let bytes = self.read(start, length)?;
            if let Some((header, header_bytes)) = PageHeader::read(&bytes) {
                *next = Some((start + header_bytes as u64, header));
                return Ok(Cursor::new(bytes));
            }
        }
        Err(refused("a page of it has a damaged header"))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let next = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            next.take()
        };
        let header = match next {
            Some((data_start, header))
                if data_start == start && header.packed_bytes() == length as u64 =>
            {
                header
            }
            _ => return Err(refused("a page of it is not where its header says")),
        };
        header.check()?;
        let is_dictionary = header.is_dictionary();
        let dictionary_bytes = self.budget.dictionary_bytes(self.column);
        let bytes = header.cost_bytes(&self.leaf, self.batch_rows, dictionary_bytes);
        let passing_bytes = header.passing_bytes(&self.leaf);
        let is_room = self
            .budget
            .take(self.column, is_dictionary, bytes, passing_bytes);
        if !is_room {
            return Err(refused(TOO_MUCH));
        }
        let packed = self.read(start, length)?;
        if packed.len() < length {
            return Err(ParquetError::EOF("it ends within a page".to_owned()));
        }
        header.check_packed(&packed, self.leaf.codec)?;
        Ok(packed.into())
    }
}

/// Pages of a column whose values can be decoded.
struct Pages {
    pages: SerializedPageReader<Chunk>,
    column: usize,
    leaf: Leaf,
    batch_rows: u64,
    budget: Arc<Budget>,
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(page) = self.pages.get_next_page()? else {
            return Ok(None);
        };
        let values = u64::from(page.num_values());
        let batch_values = self.leaf.batch_values(values, self.batch_rows);
        let checked = values::checked(page, &self.leaf, batch_values)?;
        let made_bytes = grown_bytes(checked.copied_bytes);
        if !self.budget.unpacked(self.column, made_bytes) {
            return Err(refused(TOO_MUCH));
        }
        Ok(Some(checked.page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}
