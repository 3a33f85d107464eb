//! Pages of lists.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait, Select};

/// Limit and offset of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// Most rows of the page.
    pub limit: u64,
    /// Rows to skip.
    pub offset: u64,
}

/// Page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// Length of the whole list.
    pub count: u64,
    /// Rows of this page.
    pub rows: Vec<T>,
}

impl<T> Page<T> {
    /// Cuts a page out of a whole list.
    #[must_use]
    pub fn of(all: Vec<T>, page: PageRequest) -> Self {
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            count: all.len() as u64,
            rows: all
                .into_iter()
                .skip(size(page.offset))
                .take(size(page.limit))
                .collect(),
        }
    }

    /// Converts every row.
    #[must_use]
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Page<U> {
        Page {
            count: self.count,
            rows: self.rows.into_iter().map(change).collect(),
        }
    }
}

/// Offset from which a page is read by a deferred join, in pages: its identifiers first, then its
/// rows. Skipping a row by the index alone saves about 35 ns in SQLite; looking up a row by its
/// identifier costs about 2.5 µs.
const DEFERRED_JOIN_PAGES: u64 = 64;

/// Query for the rows of a page, in no order; `id` is the column of their primary key.
///
/// Far from the start, only the identifiers of the page are read in the list's order, which an
/// index that has them answers alone.
pub fn part<E: EntityTrait>(
    in_order: Select<E>,
    id: impl ColumnTrait,
    page: PageRequest,
) -> Select<E> {
    let cut = in_order.offset(page.offset).limit(page.limit);
    if page.offset < page.limit.saturating_mul(DEFERRED_JOIN_PAGES) {
        return cut;
    }
    let ids = cut.select_only().column(id);
    E::find().filter(id.in_subquery(ids.into_query()))
}
