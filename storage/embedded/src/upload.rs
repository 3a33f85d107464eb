//! Transfer of a request's body from the connection's task to the thread that runs the statement.
//!
//! The end of the body is a message of its own: a channel that closes without it means that the
//! client disconnected or the body was cut, and the reader must not take it for complete.

use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::blocks::BlockReader;
use crate::exception::Exception;
use crate::held_bytes::HeldBytes;

/// Chunks waiting for the reader; hyper's are at most some 400 kB each.
const CHUNKS_MAX: usize = 8;
/// Longest pause of a client that sends a body, a server's default of `http_receive_timeout`.
const IDLE_MAX: Duration = Duration::from_secs(30);
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
    /// Forwards the body, waiting while the channel is full; returns at its end or when nobody
    /// reads any more.
    pub(crate) async fn pump(self, mut body: Incoming) {
        loop {
            let chunk = match timeout(IDLE_MAX, body.frame()).await {
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => UploadChunk::Data(data),
                    Err(_trailers) => continue,
                },
                Ok(None) => UploadChunk::End,
                Ok(Some(Err(error))) => UploadChunk::Failed(network_error(&format!(
                    "the request's body was cut: {error}"
                ))),
                Err(_elapsed) => UploadChunk::Failed(Exception::new(
                    209,
                    "Timeout exceeded while receiving the request's body",
                    "SOCKET_TIMEOUT",
                )),
            };
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

async fn drain(mut body: Incoming) {
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
