//! Body of a response, complete or streamed.

use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc;

/// Body of a response: complete, or streamed rows.
pub(crate) enum Body {
    Full(Option<Bytes>),
    Stream(mpsc::Receiver<BodyChunk>),
    /// The rows ended with an error. The bytes sent so far are flushed first, then the connection
    /// is closed.
    Broken(Option<io::Error>),
}

impl Body {
    pub(crate) fn full(bytes: Bytes) -> Self {
        Self::Full((!bytes.is_empty()).then_some(bytes))
    }

    pub(crate) fn stream() -> (mpsc::Sender<BodyChunk>, Self) {
        let (sender, receiver) = mpsc::channel(2);
        (sender, Self::Stream(receiver))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let failed = match &mut *self {
            Self::Full(bytes) => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
            Self::Broken(error) => return Poll::Ready(error.take().map(Err)),
            Self::Stream(receiver) => match receiver.poll_recv(context) {
                Poll::Ready(Some(BodyChunk::Rows(bytes))) => {
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Poll::Ready(Some(BodyChunk::End)) => {
                    *self = Self::Full(None);
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(BodyChunk::Failed(error))) => error,
                Poll::Ready(None) => io::Error::other("the rows were given up in the middle"),
                Poll::Pending => return Poll::Pending,
            },
        };
        // hyper flushes when a body is pending, and not when it fails: let it flush first.
        *self = Self::Broken(Some(failed));
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None) | Self::Broken(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Full(bytes) => http_body::SizeHint::with_exact(
                bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            ),
            Self::Stream(_) | Self::Broken(_) => http_body::SizeHint::default(),
        }
    }
}

/// Part of a streamed body. A sender dropped without [`BodyChunk::End`] breaks the response off: it
/// must not look like a complete one with fewer rows.
pub(crate) enum BodyChunk {
    Rows(Bytes),
    Failed(io::Error),
    End,
}
