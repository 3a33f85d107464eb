//! Response body that is sent in pieces, at a minimum pace.
//!
//! hyper polls for a piece when its buffer has capacity, so what a client does not read stays here,
//! where it counts against the memory budget, and is dropped with the connection. The time in which
//! a streamed body has no piece yet is not the client's.

use crate::response::budget::ResponseMemory;
use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// Size limit of a piece, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Time that every client may take, however little it reads.
const GRACE: Duration = Duration::from_secs(30);
/// Bytes that a client must have read for each further second.
const PACE_BYTES: u64 = 16 << 10;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Body that gives back the memory of its response when it is sent.
#[derive(Debug)]
pub(crate) struct PacedBody<B> {
    body: B,
    /// Unsent rest of the body's last frame.
    left: Bytes,
    memory: Option<Arc<ResponseMemory>>,
    sent_bytes: u64,
    began: Instant,
    /// Time in which the body had no piece.
    waited: Duration,
    /// Time since which it has none.
    waiting_since: Option<Instant>,
}

/// Paces a response's body; takes the memory reservation of its extensions, if there is one.
pub(crate) fn paced<B>(mut response: Response<B>) -> Response<PacedBody<B>> {
    let memory = response.extensions_mut().remove::<Arc<ResponseMemory>>();
    response.map(|body| PacedBody {
        body,
        left: Bytes::new(),
        memory,
        sent_bytes: 0,
        began: Instant::now(),
        waited: Duration::ZERO,
        waiting_since: None,
    })
}

impl<B> PacedBody<B> {
    fn is_too_slow(&self) -> bool {
        let earned = Duration::from_secs(self.sent_bytes / PACE_BYTES);
        self.began.elapsed() > GRACE + earned + self.waited
    }

    /// Counts the time that the body took for a piece.
    fn count_wait(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
    }
}

impl<B> Body for PacedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left.is_empty() {
            let polled = Pin::new(&mut self.body).poll_frame(cx);
            if polled.is_pending() {
                self.waiting_since.get_or_insert_with(Instant::now);
            } else {
                self.count_wait();
            }
            match ready!(polled) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.left = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {
                    self.memory = None;
                    return Poll::Ready(None);
                }
            }
        }
        if self.is_too_slow() {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the answer is read too slowly");
            return Poll::Ready(Some(Err(error.into())));
        }
        let piece_bytes = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(piece_bytes);
        // A slice would keep the whole buffer until it is sent.
        let piece = Bytes::copy_from_slice(&piece);
        self.sent_bytes += piece.len() as u64;
        if self.is_end_stream() {
            self.left = Bytes::new();
            self.memory = None;
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let left = self.left.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(left));
        }
        hint.set_lower(hint.lower().saturating_add(left));
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use http_body_util::{BodyExt, Full, StreamBody};

    fn body(bytes: usize) -> PacedBody<Full<Bytes>> {
        let text: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        paced(Response::new(Full::new(text.into()))).into_body()
    }

    #[tokio::test(start_paused = true)]
    async fn a_paced_body_arrives_unchanged() {
        for bytes in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES - 1] {
            let sent = body(bytes);
            assert_eq!(sent.size_hint().exact(), Some(bytes as u64));
            let all = sent.collect().await.unwrap().to_bytes();
            let expected: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            assert_eq!(all, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_body_without_pieces_is_not_the_clients() {
        let pieces = stream::unfold(0, |number| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let frame = Frame::data(Bytes::from_static(b"x"));
            (number < 5).then_some((Ok::<_, io::Error>(frame), number + 1))
        });
        let body = StreamBody::new(Box::pin(pieces));
        let sent = paced(Response::new(body)).into_body();
        let all = sent.collect().await.unwrap().to_bytes();
        assert_eq!(all.len(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_read_too_slowly_is_cut_off() {
        let pause = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        let mut slow = body(100 * PIECE_BYTES);
        let mut pieces = 0;
        while let Some(Ok(_)) = slow.frame().await {
            pieces += 1;
            pause(10).await;
        }
        // 30 s, and 4 s for each piece.
        assert!((4..8).contains(&pieces), "{pieces}");
        let mut steady = body(100 * PIECE_BYTES);
        let mut pieces = 0;
        while let Some(Ok(_)) = steady.frame().await {
            pieces += 1;
            pause(3).await;
        }
        assert_eq!(pieces, 100);
    }
}
