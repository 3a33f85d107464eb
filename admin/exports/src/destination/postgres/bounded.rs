//! A stream of which a server may fill only so much: the driver keeps an answer of any length until it
//! is whole.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a server may say unasked, in bytes: answers are counts, names of columns and what went wrong.
const BYTES_MAX: u64 = 64 << 20;
/// It may say as much more for so many bytes that it was sent.
const SENT_FOR_EACH: u64 = 64;

/// A stream whose other end has said too much when it has said more than was earned.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    said: u64,
    sent: u64,
}

impl<S> Bounded<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self {
            stream,
            said: 0,
            sent: 0,
        }
    }

    fn has_said_too_much(&self) -> bool {
        self.said > BYTES_MAX + self.sent / SENT_FOR_EACH
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
        self.said += (buffer.filled().len() - before) as u64;
        if self.has_said_too_much() {
            return Poll::Ready(Err(io::Error::other("the server says too much")));
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

    /// How much arrives of what the other end never ceases to say, after so much was sent to it.
    async fn arriving(sent: usize) -> u64 {
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
    async fn a_server_that_never_ceases_is_heard_for_so_many_bytes() {
        for (sent, earned) in [(0, 0), (64 << 20, 1 << 20)] {
            let bytes = arriving(sent).await;
            let most = BYTES_MAX + earned;
            assert!(
                (most - (1 << 20)..=most).contains(&bytes),
                "{sent}: {bytes}"
            );
        }
    }
}
