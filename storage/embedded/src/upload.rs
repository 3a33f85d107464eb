//! Transfer of a request's body from the connection's task to the thread that runs the statement.
//!
//! The end of the body is a message of its own: a channel that closes without it means that the
//! client disconnected or the body was cut, and the reader must not take it for complete.

use std::fmt::Display;
use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::blocks::BlockReader;
use crate::exception::Exception;
use crate::held_bytes::HeldBytes;
use crate::statement_slots::KEPT_WAITING_MAX;

/// Chunks waiting for the reader; hyper's are at most some 400 kB each.
const CHUNKS_MAX: usize = 8;
/// Longest pause of a client that sends a body, a server's default of `http_receive_timeout`.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Bytes that a client has to send in [`KEPT_WAITING_MAX`] if others wait for its statement's slot.
const PACE_BYTES: usize = 64 << 10;
/// Bytes of a refused body that are read and discarded, so that its sender gets to read the
/// response.
const DRAIN_BYTES_MAX: u64 = 256 << 20;
/// Largest window of zstd, as a power of two: 8 MiB, which RFC 8878 asks of a decoder. A window is
/// memory of this process as long as its statement takes.
const WINDOW_LOG_MAX: u32 = 23;

enum UploadChunk {
    Data(Bytes),
    End,
    Failed(Exception),
}

/// Reading end of a body.
pub(crate) struct Upload {
    chunks: mpsc::Receiver<UploadChunk>,
    current: Bytes,
    ended: bool,
}

/// Sending end of a body.
pub(crate) struct UploadSender(mpsc::Sender<UploadChunk>);

/// Pace of a client: the time in which it sent its last bytes, up to [`PACE_BYTES`] of them. The
/// time in which the statement keeps the client waiting does not count.
#[derive(Default)]
struct Pace {
    waited: Duration,
    bytes: usize,
}

pub(crate) fn channel() -> (UploadSender, Upload) {
    let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
    (
        UploadSender(sender),
        Upload {
            chunks,
            current: Bytes::new(),
            ended: false,
        },
    )
}

// === impl UploadSender ===

impl UploadSender {
    /// Forwards the body, waiting while the channel is full; returns at its end, when nobody reads
    /// any more, or when the client is slow and the statement `gives_up`.
    pub(crate) async fn pump<B>(self, mut body: B, gives_up: impl Fn() -> bool)
    where
        B: Body<Data = Bytes, Error: Display> + Unpin,
    {
        let mut pace = Pace::default();
        loop {
            let chunk = pace.next(&mut body, &gives_up).await;
            let last = !matches!(chunk, UploadChunk::Data(_));
            if self.0.send(chunk).await.is_err() {
                if !last {
                    drain(body).await;
                }
                return;
            }
            if last {
                return;
            }
        }
    }
}

// === impl Pace ===

impl Pace {
    /// Waits for the next part of a body.
    async fn next<B>(&mut self, body: &mut B, gives_up: &impl Fn() -> bool) -> UploadChunk
    where
        B: Body<Data = Bytes, Error: Display> + Unpin,
    {
        let mut idle = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let received = timeout(KEPT_WAITING_MAX, body.frame()).await;
            let waited = begun.elapsed();
            idle += waited;
            let data = match received {
                Ok(Some(Ok(frame))) => frame.into_data().ok(),
                Ok(Some(Err(error))) => {
                    let message = format!("the request's body was cut: {error}");
                    return UploadChunk::Failed(network_error(&message));
                }
                Ok(None) => return UploadChunk::End,
                Err(_) if idle >= IDLE_MAX => {
                    let message = "Timeout exceeded while receiving the request's body";
                    return UploadChunk::Failed(Exception::new(209, message, "SOCKET_TIMEOUT"));
                }
                Err(_) => None,
            };
            if self.is_slow(waited, data.as_ref().map_or(0, Bytes::len)) && gives_up() {
                let message =
                    "Too many simultaneous queries: others wait while this body is sent slowly";
                let name = "TOO_MANY_SIMULTANEOUS_QUERIES";
                return UploadChunk::Failed(Exception::new(202, message, name));
            }
            if let Some(data) = data {
                return UploadChunk::Data(data);
            }
        }
    }

    /// Counts bytes that came after this time; returns true if the client is slow.
    fn is_slow(&mut self, waited: Duration, bytes: usize) -> bool {
        self.waited += waited;
        self.bytes += bytes;
        if self.bytes >= PACE_BYTES {
            *self = Self::default();
        }
        self.waited >= KEPT_WAITING_MAX
    }
}

async fn drain<B>(mut body: B)
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut drained = 0;
    while let Ok(Some(Ok(frame))) = timeout(IDLE_MAX, body.frame()).await {
        drained += frame.data_ref().map_or(0, |data| data.len() as u64);
        if drained > DRAIN_BYTES_MAX {
            return;
        }
    }
}

impl Read for Upload {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() && !self.ended {
            match self.chunks.blocking_recv() {
                Some(UploadChunk::Data(data)) => self.current = data,
                Some(UploadChunk::End) => self.ended = true,
                Some(UploadChunk::Failed(exception)) => return Err(io::Error::other(exception)),
                None => {
                    return Err(io::Error::other(network_error(
                        "the client went away before the end of its request",
                    )));
                }
            }
        }
        let count = self.current.len().min(out.len());
        if let Some(out) = out.get_mut(..count) {
            self.current.copy_to_slice(out);
        }
        Ok(count)
    }
}

fn network_error(message: &str) -> Exception {
    Exception::new(210, message, "NETWORK_ERROR")
}

/// Decodes the transport's encoding (`Content-Encoding`) and then ClickHouse's own
/// (`decompress=1`).
pub(crate) fn decode_body(
    upload: Upload,
    encoding: Option<&str>,
    decompress: bool,
    memory: &HeldBytes,
) -> Result<Box<dyn Read + Send>, Exception> {
    let plain: Box<dyn Read + Send> = match encoding.map(str::trim) {
        None | Some("" | "identity") => Box::new(upload),
        Some("gzip" | "x-gzip") => Box::new(flate2::read::MultiGzDecoder::new(upload)),
        Some("deflate") => Box::new(flate2::read::ZlibDecoder::new(upload)),
        Some("lz4") => Box::new(lz4_flex::frame::FrameDecoder::new(upload)),
        Some("zstd") => Box::new(zstd_decoder(upload).map_err(|error| from_io(&error))?),
        Some(other) => {
            let message =
                format!("Unknown compression method {other}; use gzip, deflate, lz4 or zstd");
            return Err(Exception::new(89, &message, "UNKNOWN_COMPRESSION_METHOD"));
        }
    };
    Ok(if decompress {
        Box::new(BlockReader::new(plain, memory.reservation()))
    } else {
        plain
    })
}

/// Decoder for zstd, with the windows that every decoder should support and no larger ones.
fn zstd_decoder(upload: Upload) -> io::Result<impl Read + Send> {
    let mut decoder = zstd::stream::read::Decoder::new(upload)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// Returns the exception inside a read error, or wraps the error of a decoder that found bad data.
pub(crate) fn from_io(error: &io::Error) -> Exception {
    error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Exception>())
        .cloned()
        .unwrap_or_else(|| {
            Exception::new(
                271,
                &format!("Cannot decompress the request's body: {error}"),
                "CANNOT_DECOMPRESS",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};
    use tokio::time::{Sleep, sleep};

    /// Body without an end, of so many bytes each second.
    struct Trickle {
        bytes: usize,
        timer: Pin<Box<Sleep>>,
    }

    impl Body for Trickle {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            ready!(self.timer.as_mut().poll(context));
            let next = Instant::now() + Duration::from_secs(1);
            self.timer.as_mut().reset(next);
            Poll::Ready(Some(Ok(Frame::data(vec![0_u8; self.bytes].into()))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_sent_slowly_ends_while_others_wait_for_its_slot() {
        for (bytes, others_wait, code) in [
            (1, true, Some(202)),
            (8 << 10, true, Some(202)),
            (32 << 10, true, None),
            (1, false, None),
        ] {
            let (sender, mut upload) = channel();
            let body = Trickle {
                bytes,
                timer: Box::pin(sleep(Duration::ZERO)),
            };
            let read = async {
                loop {
                    match upload.chunks.recv().await {
                        Some(UploadChunk::Data(_)) => {}
                        Some(UploadChunk::Failed(exception)) => return exception.code,
                        Some(UploadChunk::End) | None => return 0,
                    }
                }
            };
            let both = async { tokio::join!(sender.pump(body, || others_wait), read).1 };
            let ended = timeout(Duration::from_secs(120), both).await;
            assert_eq!(ended.ok(), code, "{bytes} {others_wait}");
        }
    }
}
