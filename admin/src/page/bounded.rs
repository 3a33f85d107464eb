//! Reading of a page in pieces, as a page may have a thousand rows of a hundred kilobytes.
//!
//! A page ends before the row that would make it larger than [`PAGE_BYTES_MAX`]; the next one
//! begins there. The link to the previous page has the offset of its end, as its beginning is not
//! known yet; so no row is skipped on the way back.

use millrace_catalog::{Page, PageRequest};
use serde::Serialize;
use std::future::Future;
use std::io;

/// Size limit of a page, in bytes of JSON; a single row may be larger.
pub(crate) const PAGE_BYTES_MAX: u64 = 4_000_000;
/// Most rows of a page, unless a list has a lower limit of its own.
pub(crate) const LIMIT_MAX: u64 = 1_000;
/// Number of rows that are read first, before their size is known. So many of any kind fit into
/// a page.
pub(super) const FIRST_ROWS: u64 = 25;

/// Rows of a page, with the length of the list.
#[derive(Debug)]
pub(crate) struct PageRows<T> {
    /// Length of the whole list.
    pub(super) count: u64,
    /// Number of rows from this page's offset to the next page's: as many as were asked for, unless
    /// the page ended at its size limit.
    pub(super) length: u64,
    /// Rows of the page.
    pub(super) results: Vec<T>,
}

/// Reads a page. `read` may return fewer rows than it was asked for, but at least one before the
/// end of the list.
///
/// # Errors
///
/// Those of `read`.
pub(crate) async fn read<R, T, E, F>(
    page: PageRequest,
    read: impl Fn(PageRequest) -> F,
) -> Result<PageRows<T>, E>
where
    T: From<R> + Serialize,
    F: Future<Output = Result<Page<R>, E>>,
{
    let mut part = PageRows {
        count: 0,
        length: page.limit,
        results: Vec::new(),
    };
    let (mut bytes, mut rows) = (0, 0);
    while rows < page.limit {
        let piece = PageRequest {
            offset: page.offset.saturating_add(rows),
            limit: fitting(bytes, rows).min(page.limit - rows),
        };
        let found = read(piece).await?;
        part.count = found.count;
        let until = piece.offset.saturating_add(found.rows.len() as u64);
        let is_last = found.rows.is_empty() || until >= part.count;
        for row in found.rows {
            let row = T::from(row);
            let length = json_bytes(&row);
            if rows > 0 && bytes + length > PAGE_BYTES_MAX {
                part.length = rows;
                break;
            }
            (bytes, rows) = (bytes + length, rows + 1);
            part.results.push(row);
        }
        if is_last || part.length == rows {
            break;
        }
    }
    Ok(part)
}

/// Number of rows to read next, after `rows` rows of `bytes` bytes.
fn fitting(bytes: u64, rows: u64) -> u64 {
    if rows == 0 {
        return FIRST_ROWS;
    }
    let left = PAGE_BYTES_MAX.saturating_sub(bytes);
    (left / (bytes / rows).max(1)).clamp(FIRST_ROWS, LIMIT_MAX)
}

/// Finds the page that ends at `end_offset`: as many of the rows before it, at most `limit`, as
/// fit into a page.
///
/// # Errors
///
/// Those of `read`.
pub(crate) async fn page_before<R, T, E, F>(
    end_offset: u64,
    limit: u64,
    read: impl Fn(PageRequest) -> F,
) -> Result<PageRequest, E>
where
    T: From<R> + Serialize,
    F: Future<Output = Result<Page<R>, E>>,
{
    let wanted = limit.min(end_offset);
    let (mut bytes, mut rows) = (0, 0);
    'pieces: while rows < wanted {
        let piece = fitting(bytes, rows).min(wanted - rows);
        let before = PageRequest {
            offset: end_offset - rows - piece,
            limit: piece,
        };
        let found = lengths::<R, T, E, F>(before, &read).await?;
        if (found.len() as u64) < piece {
            // The list has become shorter.
            break;
        }
        for length in found.into_iter().rev() {
            bytes += length;
            if rows > 0 && bytes > PAGE_BYTES_MAX {
                break 'pieces;
            }
            rows += 1;
        }
    }
    let limit = if rows == 0 { wanted.max(1) } else { rows };
    Ok(PageRequest {
        offset: end_offset.saturating_sub(limit),
        limit,
    })
}

/// Lengths of the rows of a piece as JSON.
async fn lengths<R, T, E, F>(
    piece: PageRequest,
    read: impl Fn(PageRequest) -> F,
) -> Result<Vec<u64>, E>
where
    T: From<R> + Serialize,
    F: Future<Output = Result<Page<R>, E>>,
{
    let mut lengths = Vec::new();
    while (lengths.len() as u64) < piece.limit {
        let seen = lengths.len() as u64;
        let rest = PageRequest {
            offset: piece.offset.saturating_add(seen),
            limit: piece.limit - seen,
        };
        let found = read(rest).await?.rows;
        if found.is_empty() {
            break;
        }
        lengths.extend(found.into_iter().map(|row| json_bytes(&T::from(row))));
    }
    Ok(lengths)
}

/// Length of a value as JSON, in bytes.
fn json_bytes<T: Serialize>(value: &T) -> u64 {
    struct ByteCounter(u64);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    // A value that cannot be written fails when the response is written.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Text of a row as JSON: to write it anew for each reading would take a minute of a core.
    type Row = Box<RawValue>;

    fn row(length: usize) -> Row {
        RawValue::from_string(format!("\"{}\"", "x".repeat(length))).unwrap()
    }

    /// List of texts of these lengths, the most rows that were asked for at a time, and the most
    /// that a read returns.
    struct List(Vec<usize>, AtomicU64, u64);

    impl List {
        async fn read(&self, page: PageRequest) -> Result<Page<Row>, Infallible> {
            self.1.fetch_max(page.limit, Ordering::Relaxed);
            let limit = page.limit.min(self.2);
            let page = PageRequest { limit, ..page };
            let numbers = Page::of(self.0.clone(), page);
            Ok(numbers.map(row))
        }

        async fn page(&self, page: PageRequest) -> PageRows<Row> {
            let part = read(page, |page| self.read(page)).await;
            part.unwrap_or_else(|never| match never {})
        }
    }

    /// Lengths of the pages on the way to the end, and on the way back.
    async fn ways(list: &List, limit: u64) -> (Vec<usize>, Vec<usize>) {
        let mut page = PageRequest { limit, offset: 0 };
        let (mut there, mut back) = (Vec::new(), Vec::new());
        loop {
            let part = list.page(page).await;
            assert_eq!(part.count, list.0.len() as u64);
            there.push(part.results.len());
            if page.offset + part.length >= part.count {
                break;
            }
            page.offset += part.length;
        }
        while page.offset > 0 {
            let read = |page| list.read(page);
            let before = page_before::<_, Row, _, _>(page.offset, limit, read).await;
            let before = before.unwrap_or_else(|never| match never {});
            let part = list.page(before).await;
            assert_eq!(before.offset + part.results.len() as u64, page.offset);
            back.push(part.results.len());
            page.offset = before.offset;
        }
        (there, back)
    }

    #[tokio::test]
    async fn a_page_ends_at_its_size_limit_and_links_skip_no_row() {
        let table = [
            (vec![10; 250], 100, vec![100, 100, 50], vec![100, 100]),
            (vec![100_000; 100], 100, vec![39, 39, 22], vec![39, 39]),
            (vec![100_000; 100], 10, vec![10; 10], vec![10; 9]),
            (vec![5_000_000; 3], 100, vec![1, 1, 1], vec![1, 1]),
            // The larger ones come first.
            (
                [vec![1_000_000; 8], vec![10; 92]].concat(),
                100,
                vec![3, 3, 94],
                vec![3, 3],
            ),
            (
                [vec![1_000_000; 8], vec![10; 8]].concat(),
                8,
                vec![3, 3, 8, 2],
                vec![8, 3, 3],
            ),
            (vec![], 100, vec![0], vec![]),
        ];
        for (lengths, limit, there, back) in table {
            // Reads that return fewer rows at a time make no difference.
            for rows_max in [1_000, 7, 1] {
                let list = List(lengths.clone(), AtomicU64::new(0), rows_max);
                let expected = (there.clone(), back.clone());
                assert_eq!(ways(&list, limit).await, expected, "{limit}, {rows_max}");
            }
        }
    }

    #[tokio::test]
    async fn large_rows_are_read_a_few_at_a_time() {
        for (length, read_max) in [(100_000, 25), (10, 1_000)] {
            let list = List(vec![length; 1_000], AtomicU64::new(0), 1_000);
            let page = PageRequest {
                limit: 1_000,
                offset: 0,
            };
            list.page(page).await;
            let most = list.1.load(Ordering::Relaxed);
            assert!(most <= read_max, "{most}");
        }
    }
}
