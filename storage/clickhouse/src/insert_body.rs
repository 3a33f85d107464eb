//! Body of an insert, piece by piece.

use crate::InsertError;
use bytes::Bytes;

/// Format of an insert's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// Rows in ClickHouse's compressed blocks.
    RowBinary,
    /// One block of columns.
    Native {
        /// True if the block is in ClickHouse's compressed blocks, not as it is.
        is_compressed: bool,
        /// True if no two rows have equal keys in the table's order: there is nothing to merge.
        keys_differ: bool,
    },
}

impl BodyFormat {
    /// Name of the format in a statement.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RowBinary => "RowBinary",
            Self::Native { .. } => "Native",
        }
    }

    /// ClickHouse's settings of an insert in this format.
    pub(crate) fn settings(self) -> Vec<(&'static str, &'static str)> {
        let (is_compressed, keys_differ) = match self {
            Self::RowBinary => (true, false),
            Self::Native {
                is_compressed,
                keys_differ,
            } => (is_compressed, keys_differ),
        };
        let mut settings = Vec::new();
        if is_compressed {
            // The bytes are ClickHouse's own compressed blocks.
            settings.push(("decompress", "1"));
        }
        if keys_differ {
            // By default the server looks for rows of one key before it makes the part, and that
            // costs as much when there are none.
            settings.push(("optimize_on_insert", "0"));
        }
        settings
    }
}

/// Body of an insert, piece by piece, so that it need not be in memory all at once. Pieces, and the
/// chunks they consist of, end anywhere.
pub trait Body: Sync {
    /// Format of all pieces together; rows in compressed blocks, unless the body says otherwise.
    fn format(&self) -> BodyFormat {
        BodyFormat::RowBinary
    }

    /// Names of the body's columns behind those of the insert target, as in `a,b`; none, unless the
    /// body says otherwise.
    fn more_columns(&self) -> &str {
        ""
    }

    /// Takes note that the server does not know a column: a body that has more columns than its
    /// insert target is the body without them from then on.
    fn columns_refused(&self) {}

    /// Bytes of all pieces together.
    fn len_bytes(&self) -> u64;

    /// Returns a piece by its index, from 0; `None` behind the last.
    ///
    /// # Errors
    /// [`Unread`](crate::InsertOutcome::Unread) or [`Lost`](crate::InsertOutcome::Lost).
    fn piece(
        &self,
        index: usize,
    ) -> impl Future<Output = Result<Option<Vec<Bytes>>, InsertError>> + Send;
}

impl Body for Vec<Bytes> {
    fn len_bytes(&self) -> u64 {
        self.iter().map(|piece| piece.len() as u64).sum()
    }

    async fn piece(&self, index: usize) -> Result<Option<Vec<Bytes>>, InsertError> {
        Ok((index == 0).then(|| self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_equal_keys_are_left_to_the_server_and_only_compressed_bytes_are_decompressed() {
        let native = |is_compressed, keys_differ| BodyFormat::Native {
            is_compressed,
            keys_differ,
        };
        let (decompress, unmerged) = (("decompress", "1"), ("optimize_on_insert", "0"));
        for (format, name, settings) in [
            (BodyFormat::RowBinary, "RowBinary", vec![decompress]),
            (native(false, false), "Native", vec![]),
            (native(true, false), "Native", vec![decompress]),
            (native(false, true), "Native", vec![unmerged]),
            (native(true, true), "Native", vec![decompress, unmerged]),
        ] {
            assert_eq!(format.name(), name, "{format:?}");
            assert_eq!(format.settings(), settings, "{format:?}");
        }
    }
}
