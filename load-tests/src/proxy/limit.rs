//! A stream that breaks after a limit of written bytes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Number of bytes that may still be written; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Limit(Arc<AtomicUsize>);

/// A stream that fails after its limit of written bytes; its owner then closes it.
#[derive(Debug)]
pub(super) struct Limited<S> {
    stream: S,
    limit: Limit,
}

impl Limit {
    const NONE: usize = usize::MAX;

    /// No limit.
    pub(super) fn none() -> Self {
        Self::of(Self::NONE)
    }

    /// A limit of `bytes` bytes.
    pub(super) fn of(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Sets the limit from now on.
    pub(super) fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Release);
    }

    fn left(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn spend(&self, bytes: usize) {
        let left = self.left();
        if left != Self::NONE {
            self.set(left.saturating_sub(bytes));
        }
    }
}

impl<S> Limited<S> {
    pub(super) fn new(stream: S, limit: Limit) -> Self {
        Self { stream, limit }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let allowed = bytes.len().min(self.limit.left());
        if allowed == 0 && !bytes.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let allowed = bytes.get(..allowed).unwrap_or_default();
        let written = Pin::new(&mut self.stream).poll_write(context, allowed);
        if let Poll::Ready(Ok(count)) = written {
            self.limit.spend(count);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_stream_breaks_after_its_limit_and_not_before() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let limit = Limit::none();
        let mut stream = Limited::new(ours, limit.clone());
        stream.write_all(b"abc").await.unwrap();
        limit.set(2);
        assert!(stream.write_all(b"defg").await.is_err());
        drop(stream);
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"abcde");
    }
}
