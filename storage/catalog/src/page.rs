//! Parts of lists.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait, Select};

/// Which part of a list is wanted.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// The most rows.
    pub limit: u64,
    /// How many to skip.
    pub offset: u64,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// How long the whole list is.
    pub count: u64,
    /// The rows of this part.
    pub rows: Vec<T>,
}

impl<T> Page<T> {
    /// A part of a list that is here as a whole.
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

    /// The same part of the same list, as something else.
    #[must_use]
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Page<U> {
        Page {
            count: self.count,
            rows: self.rows.into_iter().map(change).collect(),
        }
    }
}

/// How many times its length a part must be away from the start of its list for its identifiers to
/// be looked for first. To skip a row by the index alone saves about 35 ns in SQLite; to look up a
/// row by its identifier costs about 2.5 µs.
const FAR: u64 = 64;

/// The rows of a part of a list, in no order; `id` is the column of their primary key.
///
/// Far from the start, only the identifiers of the part are read in the list's order: an index
/// that has them answers that alone.
pub(crate) fn part<E: EntityTrait>(
    in_order: Select<E>,
    id: impl ColumnTrait,
    page: PageRequest,
) -> Select<E> {
    let cut = in_order.offset(page.offset).limit(page.limit);
    if page.offset < page.limit.saturating_mul(FAR) {
        return cut;
    }
    let ids = cut.select_only().column(id);
    E::find().filter(id.in_subquery(ids.into_query()))
}
