//! Stream with a limit on what a server may send: the driver buffers an answer of any length until
//! it is complete.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a server may send in any case: answers are counts, names of columns and errors.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes sent to the server that earn it one more byte.
const SENT_BYTES_PER_RECEIVED_BYTE: u64 = 64;

/// Stream that fails once its other end has sent more than it has earned.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    received: u64,
    sent: u64,
}

impl<S> Bounded<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self {
            stream,
            received: 0,
            sent: 0,
        }
    }

    fn is_over_limit(&self) -> bool {
        self.received > BYTES_MAX + self.sent / SENT_BYTES_PER_RECEIVED_BYTE
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.received += (buffer.filled().len() - before) as u64;
        if self.is_over_limit() {
            return Poll::Ready(Err(io::Error::other("the server sent too much")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(length)) = written {
            self.sent += length as u64;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// Number of bytes that arrive from a server that never stops sending, after `sent` bytes to
    /// it.
    async fn received_bytes(sent: usize) -> u64 {
        let (ours, theirs) = duplex(1 << 20);
        let (mut from_us, mut to_us) = tokio::io::split(theirs);
        let talking = tokio::spawn(async move {
            let piece = vec![b'N'; 1 << 20];
            while to_us.write_all(&piece).await.is_ok() {}
        });
        let listening = tokio::spawn(async move {
            let mut heard = vec![0; 1 << 20];
            while from_us
                .read(&mut heard)
                .await
                .is_ok_and(|length| length > 0)
            {}
        });
        let mut stream = Bounded::new(ours);
        stream.write_all(&vec![b'Q'; sent]).await.unwrap();
        let (mut bytes, mut buffer) = (0, vec![0; 1 << 20]);
        while let Ok(length) = stream.read(&mut buffer).await {
            bytes += length as u64;
        }
        drop(stream);
        talking.await.unwrap();
        listening.await.unwrap();
        bytes
    }

    #[tokio::test]
    async fn an_endless_answer_is_read_up_to_the_limit() {
        for (sent, earned) in [(0, 0), (64 << 20, 1 << 20)] {
            let bytes = received_bytes(sent).await;
            let most = BYTES_MAX + earned;
            assert!(
                (most - (1 << 20)..=most).contains(&bytes),
                "{sent}: {bytes}"
            );
        }
    }
}
