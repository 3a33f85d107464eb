//! Stream with a limit on what the driver may send for a request: it looks up each type that it
//! does not know, and each type that the answer names, as deep as a server likes.
//!
//! Our statements have built-in types only, so they need no look-up. The limit lies above TLS,
//! where each write has all that the driver wants to send.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// Bytes of a request beside the texts of its statement and its parameters: 147 at most for COPY,
/// 66 for a query with two parameters. The first look-up of a type has more than 280.
const FRAMING_BYTES_MAX: u64 = 192;

/// Bytes that the driver may still send, shared by a session and its stream.
#[derive(Clone, Debug)]
pub(super) struct RequestBudget(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    left: AtomicU64,
    is_exceeded: AtomicBool,
}

impl RequestBudget {
    /// Creates a budget that is unlimited outside of [`Self::within`].
    pub(super) fn unlimited() -> Self {
        Self(Arc::new(Counts {
            left: AtomicU64::new(u64::MAX),
            is_exceeded: AtomicBool::new(false),
        }))
    }

    /// Makes a request whose texts have this length. The connection ends before the driver sends
    /// anything beside it.
    pub(super) async fn within<T>(
        &self,
        texts_bytes: usize,
        request: impl Future<Output = T>,
    ) -> T {
        let allowed = FRAMING_BYTES_MAX.saturating_add(texts_bytes as u64);
        self.0.left.store(allowed, Relaxed);
        let outcome = request.await;
        self.0.left.store(u64::MAX, Relaxed);
        outcome
    }

    /// Returns true if the driver wanted to send more than a request.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0.is_exceeded.load(Relaxed)
    }

    fn permits(&self, bytes: usize) -> bool {
        let is_permitted = bytes as u64 <= self.0.left.load(Relaxed);
        if !is_permitted {
            self.0.is_exceeded.store(true, Relaxed);
        }
        is_permitted
    }

    fn spend(&self, bytes: usize) {
        let spend = |left: u64| Some(left.saturating_sub(bytes as u64));
        let _ = self.0.left.fetch_update(Relaxed, Relaxed, spend);
    }
}

/// Stream that fails instead of sending more than its budget.
#[derive(Debug)]
pub(super) struct Budgeted<S> {
    stream: S,
    budget: RequestBudget,
}

impl<S> Budgeted<S> {
    pub(super) const fn new(stream: S, budget: RequestBudget) -> Self {
        Self { stream, budget }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Budgeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Budgeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.budget.permits(bytes.len()) {
            return Poll::Ready(Err(io::Error::other(
                "the driver sends more than a request",
            )));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(length)) = written {
            self.budget.spend(length);
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

impl<S: TlsStream + Unpin> TlsStream for Budgeted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

/// Connector for TLS below the budget.
pub(super) struct BudgetedTls<T>(pub(super) T);

impl<S, T> TlsConnect<Budgeted<S>> for BudgetedTls<T>
where
    S: 'static,
    T: TlsConnect<S> + 'static,
    T::Future: Send,
{
    type Stream = Budgeted<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, stream: Budgeted<S>) -> Self::Future {
        let Budgeted { stream, budget } = stream;
        let connecting = self.0.connect(stream);
        Box::pin(async move {
            let connected = connecting.await;
            connected.map(|stream| Budgeted::new(stream, budget))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// Number of bytes that arrive of writes within a request whose texts have 100 bytes, and
    /// whether its budget is exceeded.
    async fn arrived_bytes(before: usize, requested: &[usize]) -> (usize, bool) {
        let (ours, mut theirs) = duplex(1 << 20);
        let budget = RequestBudget::unlimited();
        let mut stream = Budgeted::new(ours, budget.clone());
        stream.write_all(&vec![b'b'; before]).await.unwrap();
        let request = async {
            for length in requested {
                stream.write_all(&vec![b'r'; *length]).await?;
            }
            io::Result::Ok(())
        };
        let outcome = budget.within(100, request).await;
        assert_eq!(outcome.is_err(), budget.is_exceeded());
        stream.write_all(b"after").await.unwrap();
        drop(stream);
        let mut arrived = Vec::new();
        theirs.read_to_end(&mut arrived).await.unwrap();
        (arrived.len() - before - 5, budget.is_exceeded())
    }

    #[tokio::test]
    async fn nothing_is_sent_beyond_a_requests_budget() {
        let all = FRAMING_BYTES_MAX as usize + 100;
        let table: [(&[usize], usize, bool); 5] = [
            (&[], 0, false),
            (&[all], all, false),
            (&[all - 1, 1], all, false),
            (&[all + 1], 0, true),
            (&[all - 1, 2], all - 1, true),
        ];
        for (requested, arrived, is_exceeded) in table {
            for before in [0, 10_000] {
                let outcome = arrived_bytes(before, requested).await;
                assert_eq!(outcome, (arrived, is_exceeded), "{requested:?}");
            }
        }
    }
}
