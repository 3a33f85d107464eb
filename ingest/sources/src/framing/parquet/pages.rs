//! Pages of a row group, each checked before it is unpacked, and its values before they are
//! decoded.

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

/// Bytes that are read for a header: enough for nearly all, then the most that is accepted.
const HEADER_BYTES: [usize; 2] = [4 << 10, 1 << 20];

pub(super) const TOO_MUCH: &str =
    "its columns take too much memory at once. Rewrite it with smaller pages, or remove columns";

/// A row group whose pages are checked.
pub(super) struct CheckedRowGroup {
    pub(super) file: Arc<File>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) index: usize,
    pub(super) leaves: Vec<Leaf>,
    pub(super) batch_rows: u64,
    pub(super) budget: Arc<Budget>,
}

impl CheckedRowGroup {
    fn about(&self) -> Option<&RowGroupMetaData> {
        self.metadata.row_groups().get(self.index)
    }

    fn pages(&self, column: usize) -> Result<Box<dyn PageReader>> {
        let about = self.about().and_then(|group| group.columns().get(column));
        let (Some(about), Some(leaf)) = (about, self.leaves.get(column)) else {
            return Err(refused("a row group of it has too few columns"));
        };
        let chunk = CheckedChunk {
            file: Arc::clone(&self.file),
            column,
            leaf: leaf.clone(),
            batch_rows: self.batch_rows,
            budget: Arc::clone(&self.budget),
            next: Mutex::new(None),
        };
        let pages = SerializedPageReader::new(Arc::new(chunk), about, self.num_rows(), None)?;
        Ok(Box::new(CheckedPages {
            pages,
            column,
            leaf: leaf.clone(),
            batch_rows: self.batch_rows,
            budget: Arc::clone(&self.budget),
        }))
    }
}

impl RowGroups for CheckedRowGroup {
    fn num_rows(&self) -> usize {
        let rows = self.about().map_or(0, RowGroupMetaData::num_rows);
        usize::try_from(rows).unwrap_or_default()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(SingleChunk(Some(self.pages(column)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.about().into_iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// Iterator over the pages of the one column chunk that is read.
struct SingleChunk(Option<Result<Box<dyn PageReader>>>);

impl Iterator for SingleChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take()
    }
}

impl PageIterator for SingleChunk {}

/// Bytes of a column chunk, from which the library reads a page's header and then its page.
struct CheckedChunk {
    file: Arc<File>,
    column: usize,
    leaf: Leaf,
    batch_rows: u64,
    budget: Arc<Budget>,
    /// Offset of the page whose header was read last, with the header.
    next: Mutex<Option<(u64, PageHeader)>>,
}

impl CheckedChunk {
    fn read(&self, start: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, start + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl Length for CheckedChunk {
    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }
}

impl ChunkReader for CheckedChunk {
    type T = Cursor<Vec<u8>>;

    /// Reads a page's header, and some bytes after it.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_some_and(|(data_start, _)| data_start == start) {
            // The library has read the header before, for the number of rows.
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
        let transient_bytes = header.transient_bytes(&self.leaf);
        let is_within_budget = self
            .budget
            .take(self.column, is_dictionary, bytes, transient_bytes);
        if !is_within_budget {
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

/// Pages of a column whose values are checked.
struct CheckedPages {
    pages: SerializedPageReader<CheckedChunk>,
    column: usize,
    leaf: Leaf,
    batch_rows: u64,
    budget: Arc<Budget>,
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(page) = self.pages.get_next_page()? else {
            return Ok(None);
        };
        let values = u64::from(page.num_values());
        let batch_values = self.leaf.batch_values(values, self.batch_rows);
        let checked = values::check(page, &self.leaf, batch_values)?;
        let copied_bytes = grown_bytes(checked.copied_bytes);
        if !self.budget.unpacked(self.column, copied_bytes) {
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
