//! A request's body, from the connection's task to the thread that runs the statement.
//!
//! The end of the body is a message of its own: a channel that closes without it means that the client has gone or the
//! body was cut, and whoever reads must not take what came for the whole.

use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::blocks::BlockReader;
use crate::exception::Exception;

/// Pieces waiting for the reader; hyper's are at most some 400 kB each.
const PIECES_MAX: usize = 8;
/// A client that sends nothing for so long is given up, as a server does (`http_receive_timeout`).
const IDLE_MAX: Duration = Duration::from_secs(30);
/// What is read and thrown away of a refused body, so that its sender gets to read the answer.
const DRAIN_BYTES_MAX: u64 = 256 << 20;

enum Piece {
    Data(Bytes),
    End,
    Failed(Exception),
}

/// The reading end.
pub(crate) struct Upload {
    pieces: mpsc::Receiver<Piece>,
    current: Bytes,
    ended: bool,
}

/// The sending end.
pub(crate) struct UploadSender(mpsc::Sender<Piece>);

pub(crate) fn channel() -> (UploadSender, Upload) {
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    (
        UploadSender(sender),
        Upload {
            pieces,
            current: Bytes::new(),
            ended: false,
        },
    )
}

// === impl UploadSender ===

impl UploadSender {
    /// Sends the body on, waiting while the reader has enough; returns when it is over or nobody reads any more.
    pub(crate) async fn pump(self, mut body: Incoming) {
        loop {
            let piece = match timeout(IDLE_MAX, body.frame()).await {
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Piece::Data(data),
                    Err(_trailers) => continue,
                },
                Ok(None) => Piece::End,
                Ok(Some(Err(error))) => {
                    Piece::Failed(cut(&format!("the request's body was cut: {error}")))
                }
                Err(_elapsed) => Piece::Failed(Exception::new(
                    209,
                    "Timeout exceeded while receiving the request's body",
                    "SOCKET_TIMEOUT",
                )),
            };
            let last = !matches!(piece, Piece::Data(_));
            if self.0.send(piece).await.is_err() {
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
            match self.pieces.blocking_recv() {
                Some(Piece::Data(data)) => self.current = data,
                Some(Piece::End) => self.ended = true,
                Some(Piece::Failed(exception)) => return Err(io::Error::other(exception)),
                None => {
                    return Err(io::Error::other(cut(
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

fn cut(message: &str) -> Exception {
    Exception::new(210, message, "NETWORK_ERROR")
}

/// Undoes the transport's encoding (`Content-Encoding`) and then ClickHouse's own (`decompress=1`).
pub(crate) fn decoded(
    upload: Upload,
    encoding: Option<&str>,
    decompress: bool,
) -> Result<Box<dyn Read + Send>, Exception> {
    let plain: Box<dyn Read + Send> = match encoding.map(str::trim) {
        None | Some("" | "identity") => Box::new(upload),
        Some("gzip" | "x-gzip") => Box::new(flate2::read::MultiGzDecoder::new(upload)),
        Some("deflate") => Box::new(flate2::read::ZlibDecoder::new(upload)),
        Some("lz4") => Box::new(lz4_flex::frame::FrameDecoder::new(upload)),
        Some("zstd") => {
            Box::new(zstd::stream::read::Decoder::new(upload).map_err(|error| from_io(&error))?)
        }
        Some(other) => {
            let message =
                format!("Unknown compression method {other}; use gzip, deflate, lz4 or zstd");
            return Err(Exception::new(89, &message, "UNKNOWN_COMPRESSION_METHOD"));
        }
    };
    Ok(if decompress {
        Box::new(BlockReader::new(plain))
    } else {
        plain
    })
}

/// The exception inside an error of reading, or one made of it: then the decoder found bad data.
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
