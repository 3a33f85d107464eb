//! Response body that is streamed as it comes, instead of being made before it is sent.

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderName, HeaderValue};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Memory of a streamed response: the pieces that are on their way.
pub(crate) const STREAM_BYTES: usize = 1 << 20;

/// Pieces of a body. An error in the place of a piece breaks the connection, so that no client
/// takes what came before for all.
pub(crate) struct Pieces {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    /// Bytes that may still be sent.
    left_bytes: u64,
    /// Held until the last piece is sent, or the client is gone.
    _held: Box<dyn Send + Sync>,
}

impl Pieces {
    /// Pieces of a channel, which fail beyond `bytes_max`; `held` is dropped with them.
    pub(crate) fn new(
        receiver: mpsc::Receiver<io::Result<Bytes>>,
        bytes_max: u64,
        held: impl Send + Sync + 'static,
    ) -> Self {
        Self {
            receiver,
            left_bytes: bytes_max,
            _held: Box::new(held),
        }
    }
}

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.receiver.poll_recv(cx);
        let Poll::Ready(Some(Ok(piece))) = &polled else {
            return polled;
        };
        match self.left_bytes.checked_sub(piece.len() as u64) {
            Some(left) => {
                self.left_bytes = left;
                polled
            }
            None => {
                self.receiver.close();
                let error = io::Error::other("the answer is longer than it may be");
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

/// Streamed body with its headers. Clones share the body, which is sent once.
#[derive(Clone)]
pub(crate) struct BodyStream {
    pieces: Arc<Mutex<Option<Pieces>>>,
    /// Further headers of the response.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl BodyStream {
    /// Body of these pieces.
    pub(crate) fn new(pieces: Pieces, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        Self {
            pieces: Arc::new(Mutex::new(Some(pieces))),
            headers,
        }
    }

    /// Takes the pieces to send them.
    pub(crate) fn take(&self) -> Option<Pieces> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.take()
    }
}

impl fmt::Debug for BodyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyStream")
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    #[tokio::test]
    async fn pieces_fail_beyond_their_limit_and_release_what_they_hold() {
        let (sender, receiver) = mpsc::channel(4);
        let held = Arc::new(());
        let mut pieces = Pieces::new(receiver, 5, Arc::clone(&held));
        for piece in ["abc", "de", "f"] {
            sender.send(Ok(Bytes::from(piece))).await.unwrap();
        }
        assert_eq!(pieces.next().await.unwrap().unwrap(), "abc");
        assert_eq!(pieces.next().await.unwrap().unwrap(), "de");
        pieces.next().await.unwrap().unwrap_err();
        assert!(sender.is_closed(), "whoever sends is told to stop");
        assert_eq!(Arc::strong_count(&held), 2);
        drop(pieces);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
