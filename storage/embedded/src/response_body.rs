//! Body of a response, complete or streamed, and the time that its client has for it.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::statement_slots::KEPT_WAITING_MAX;

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

/// Sends rows; returns false if the client has gone, or has accepted none for `send_max`, or for
/// five seconds at the end of which the statement `gives_up`.
pub(crate) async fn send(
    sender: &mpsc::Sender<BodyChunk>,
    bytes: Bytes,
    send_max: Duration,
    gives_up: &(impl Fn() -> bool + Sync),
) -> bool {
    let mut sending = pin!(sender.send(BodyChunk::Rows(bytes)));
    let until = Instant::now() + send_max;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match timeout(left.min(KEPT_WAITING_MAX), sending.as_mut()).await {
            Ok(sent) => return sent.is_ok(),
            Err(_) if left <= KEPT_WAITING_MAX || gives_up() => return false,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_has_its_time_or_five_seconds_while_others_wait() {
        for (send_seconds, others_wait, seconds) in [
            (30, false, 30),
            (600, false, 600),
            (600, true, 5),
            (5, true, 5),
            (2, true, 2),
            (2, false, 2),
        ] {
            let (sender, _body) = Body::stream();
            let send_max = Duration::from_secs(send_seconds);
            let rows = Bytes::from_static(b"rows");
            let begun = Instant::now();
            while send(&sender, rows.clone(), send_max, &|| others_wait).await {}
            let case = format!("{send_seconds} {others_wait}");
            assert_eq!(begun.elapsed().as_secs(), seconds, "{case}");
        }
    }

    #[tokio::test]
    async fn a_client_that_has_gone_is_sent_nothing() {
        let (sender, body) = Body::stream();
        drop(body);
        let send_max = Duration::from_secs(30);
        assert!(!send(&sender, Bytes::from_static(b"rows"), send_max, &|| false).await);
    }
}
