//! Limit on the time in which a client accepts nothing of a response, which its requests set.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_io_timeout::TimeoutStream;

/// Limit of one connection, in whole seconds.
#[derive(Clone, Debug)]
pub(crate) struct SendLimit(Arc<AtomicU64>);

/// Stream whose writes fail once they have stalled for that time.
pub(crate) struct SendLimited<S> {
    stream: Pin<Box<TimeoutStream<S>>>,
    limit: SendLimit,
    applied: Duration,
}

// === impl SendLimit ===

impl SendLimit {
    pub(crate) fn new(limit: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(limit.as_secs())))
    }

    /// Sets the limit of what is written from now on.
    pub(crate) fn set(&self, limit: Duration) {
        self.0.store(limit.as_secs(), Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_secs(self.0.load(Relaxed))
    }
}

// === impl SendLimited ===

impl<S: AsyncRead + AsyncWrite> SendLimited<S> {
    pub(crate) fn new(stream: S, limit: SendLimit) -> Self {
        let (mut stream, applied) = (TimeoutStream::new(stream), limit.get());
        stream.set_write_timeout(Some(applied));
        Self {
            stream: Box::pin(stream),
            limit,
            applied,
        }
    }

    /// Stream to write to, under the limit of now.
    fn writer(&mut self) -> Pin<&mut TimeoutStream<S>> {
        let limit = self.limit.get();
        if limit != self.applied {
            self.applied = limit;
            self.stream.as_mut().set_write_timeout_pinned(Some(limit));
        }
        self.stream.as_mut()
    }
}

impl<S: AsyncRead + AsyncWrite> AsyncRead for SendLimited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite> AsyncWrite for SendLimited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writer().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer().poll_write_vectored(cx, slices)
    }

    /// Passes on what the stream can do: without it hyper copies each response.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_stalled_write_fails_after_the_limit_that_was_set_last() {
        let limit = SendLimit::new(Duration::from_secs(30));
        for seconds in [30, 7, 600] {
            let (ours, mut theirs) = duplex(10);
            let mut stream = SendLimited::new(ours, limit.clone());
            limit.set(Duration::from_secs(seconds));
            stream.write_all(&[0; 10]).await.unwrap();
            theirs.read_exact(&mut [0; 10]).await.unwrap();
            let begun = Instant::now();
            let error = stream.write_all(&[0; 11]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(begun.elapsed().as_secs(), seconds);
        }
    }
}
