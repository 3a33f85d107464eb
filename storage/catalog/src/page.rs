//! Parts of lists.

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
