//! Body of an insert, piece by piece.

use crate::InsertError;
use bytes::Bytes;

/// Body of an insert: rows as RowBinary in ClickHouse's compressed blocks, piece by piece, so that
/// they need not be in memory all at once. Pieces, and the chunks they consist of, end anywhere.
pub trait Body: Sync {
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
