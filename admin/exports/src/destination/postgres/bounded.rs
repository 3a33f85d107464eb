//! Stream with limits on what a server may send, and on the questions that it may have asked.
//!
//! The driver buffers an answer of any length until it is complete. It looks up each type that the
//! server names and it does not know, and the types of these types, one within the other: a server
//! that names new ones for ever would have the stack overflow. Each look-up takes a turn, in which
//! something is sent after something was received.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a server may send in any case: answers are counts, names of columns and errors.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes sent to the server that earn it one more byte.
const SENT_BYTES_PER_RECEIVED_BYTE: u64 = 64;

/// Turns in any case: to log in takes some ten, and each statement one or two.
const TURNS_MAX: u64 = 48;
/// Bytes sent that earn one more turn. A look-up sends some eighty; our statements, with their
/// rows, are longer.
const SENT_BYTES_PER_TURN: u64 = 256;

/// Stream that fails once its other end has sent more than it has earned.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    received: u64,
    sent: u64,
    /// Times that something was sent after something was received.
    turns: u64,
    /// True if something was received since something was sent.
    has_received: bool,
}

impl<S> Bounded<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self {
            stream,
            received: 0,
            sent: 0,
            turns: 0,
            has_received: false,
        }
    }

    const fn has_turns_left(&self) -> bool {
        self.turns < TURNS_MAX + self.sent / SENT_BYTES_PER_TURN
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
        let length = buffer.filled().len() - before;
        self.received += length as u64;
        self.has_received |= length > 0;
        if self.is_over_limit() {
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
        if self.has_received && !self.has_turns_left() {
            return Poll::Ready(Err(io::Error::other("the server asks too much")));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(length)) = written {
            self.sent += length as u64;
            self.turns += u64::from(std::mem::take(&mut self.has_received));
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

    /// Number of statements of `bytes` that a server answers until the stream fails, up to 1 000.
    async fn answered(bytes: usize) -> usize {
        let (ours, mut theirs) = duplex(1 << 16);
        let answering = tokio::spawn(async move {
            let mut statement = vec![0; bytes];
            while theirs.read_exact(&mut statement).await.is_ok() {
                theirs.write_all(b"T").await.unwrap();
            }
        });
        let mut stream = Bounded::new(ours);
        let (statement, mut answer, mut count) = (vec![b'Q'; bytes], [0; 1], 0);
        while count < 1_000 && stream.write_all(&statement).await.is_ok() {
            stream.read_exact(&mut answer).await.unwrap();
            count += 1;
        }
        drop(stream);
        answering.await.unwrap();
        count
    }

    #[tokio::test]
    async fn a_server_is_asked_short_questions_a_limited_number_of_times() {
        let most = TURNS_MAX as usize * 2;
        for bytes in [1, 60, 100] {
            let count = answered(bytes).await;
            assert!((40..most).contains(&count), "{bytes}: {count}");
        }
        assert_eq!(answered(256).await, 1_000);
    }
}
