//! HTTP responses: ClickHouse's headers, and a query's rows from its pipe to the client.
//!
//! The first rows are held back until the query has ended or there are [`HOLD_BYTES`] of them, so a
//! query that fails early gets an error status. One that fails later ends as on a ClickHouse
//! server: the body carries the error between two `__exception__` lines with the tag of the
//! `X-ClickHouse-Exception-Tag` header, then the connection is closed.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use millrace_blocks::Compressor;
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};

use crate::engine::Engine;
use crate::exception::Exception;
use crate::ffi::Summary;
use crate::held_bytes::{HeldBytes, Reservation};
use crate::response_body::{Body, BodyChunk, send};
use crate::row_stream::{RowStream, StatementTask};
use crate::select::PIPE_BYTES;
use crate::statement_progress::{QueryStarted, StatementEnded};
use crate::statement_slots::StatementSlot;

/// Bytes of rows held back before the response's headers are sent.
const HOLD_BYTES: usize = 1 << 20;
/// Bytes held back with `wait_end_of_query=1`; longer responses are streamed all the same, as are
/// those for which others leave too little of [`HeldBytes`], which bounds memory.
const HOLD_WAITING_BYTES: usize = 64 << 20;
/// Bytes that are compressed among other tasks of a thread, at most.
const PACKED_BYTES_MAX: usize = 4 << 20;

/// State shared by all responses to one request.
#[derive(Clone)]
pub(crate) struct ResponseContext {
    pub(crate) engine: Arc<Engine>,
    pub(crate) query_id: String,
    /// Identifies the statement in the engine's process list.
    pub(crate) tag: String,
    pub(crate) compress: bool,
    pub(crate) wait_end_of_query: bool,
    /// Longest time a client may accept no data before its query is stopped.
    pub(crate) send_max: Duration,
    /// Budget of the bytes held back beyond [`HOLD_BYTES`].
    pub(crate) held_bytes: HeldBytes,
    /// Slot of the statement, while it runs.
    pub(crate) slot: Weak<StatementSlot>,
}

/// Time for the exception frame to reach the socket before the connection is closed.
const FRAME_FLUSH: Duration = Duration::from_secs(1);

// === impl ResponseContext ===

impl ResponseContext {
    /// Response to a statement that has ended, with all its output.
    pub(crate) fn finished(
        &self,
        ended: &StatementEnded,
        output: Bytes,
        reservation: Reservation,
    ) -> Response<Body> {
        let output = reservation.attach(self.packed(output));
        let mut response = Response::new(Body::full(output));
        self.set_headers(response.headers_mut(), &ended.format);
        set(
            response.headers_mut(),
            "x-clickhouse-summary",
            &summary_text(&ended.finished.summary),
        );
        response
    }

    /// Response to a statement that failed before anything was sent.
    pub(crate) fn failed(&self, exception: &Exception) -> Response<Body> {
        let mut response = error_response(exception, &self.engine);
        set(
            response.headers_mut(),
            "x-clickhouse-query-id",
            &self.query_id,
        );
        set(
            response.headers_mut(),
            "x-clickhouse-timezone",
            &self.engine.timezone,
        );
        response
    }

    fn set_headers(&self, headers: &mut HeaderMap, format: &str) {
        set(headers, "x-clickhouse-query-id", &self.query_id);
        set(headers, "x-clickhouse-format", format);
        set(headers, "x-clickhouse-timezone", &self.engine.timezone);
        set(
            headers,
            "x-clickhouse-server-display-name",
            &self.engine.host,
        );
        set(headers, "content-type", content_type(format));
    }

    fn packed(&self, output: Bytes) -> Bytes {
        if !self.compress {
            return output;
        }
        let pack = || {
            let mut packed = Vec::new();
            Compressor::new().compress_into(&output, &mut packed);
            Bytes::from(packed)
        };
        // A long one takes a tenth of a second, in which its thread would serve nobody else.
        if output.len() > PACKED_BYTES_MAX {
            block_in_place(pack)
        } else {
            pack()
        }
    }

    /// Streams a query's rows as the response.
    pub(crate) async fn rows(self, started: QueryStarted, job: StatementTask) -> Response<Body> {
        let mut rows = match RowStream::new(
            started.pipe,
            job,
            (Arc::clone(&self.engine), self.tag.clone()),
        ) {
            Ok(rows) => rows,
            Err(error) => {
                return self.failed(&Exception::new(
                    1002,
                    &error.to_string(),
                    "UNKNOWN_EXCEPTION",
                ));
            }
        };
        let mut held = BytesMut::new();
        let mut reservation = self.held_bytes.reservation();
        while held.len() < HOLD_BYTES || self.may_hold(held.len(), &mut reservation) {
            if rows.read(&mut held).await == 0 {
                return match rows.end().await {
                    Ok(ended) => self.finished(&ended, held.freeze(), reservation),
                    Err(exception) => self.failed(&exception),
                };
            }
        }
        let (sender, body) = Body::stream();
        let mut response = Response::new(body);
        self.set_headers(response.headers_mut(), &started.format);
        let exception_tag = self.tag.get(..16).unwrap_or_default().to_owned();
        set(
            response.headers_mut(),
            "x-clickhouse-exception-tag",
            &exception_tag,
        );
        set(
            response.headers_mut(),
            "x-clickhouse-summary",
            &summary_text(&Summary::default()),
        );
        let held = reservation.attach(self.packed(held.freeze()));
        tokio::spawn(self.send_rows(rows, held, sender, exception_tag));
        response
    }

    /// Returns true if the next rows may be held back as well, and reserves memory for them.
    fn may_hold(&self, held: usize, reservation: &mut Reservation) -> bool {
        self.wait_end_of_query
            && held < HOLD_WAITING_BYTES
            && reservation.reserve(held + PIPE_BYTES)
    }

    /// Sends rows; returns false if the client has gone, or keeps the statement waiting too long.
    async fn send(&self, sender: &mpsc::Sender<BodyChunk>, bytes: Bytes) -> bool {
        send(sender, bytes, self.send_max, &|| self.gives_up()).await
    }

    /// Returns true if the statement has to end, so that others get its slot.
    pub(crate) fn gives_up(&self) -> bool {
        let gives_up = self.slot.upgrade().is_some_and(|slot| slot.give_up());
        if gives_up {
            tracing::info!(
                query_id = self.query_id,
                "a statement ends whose client keeps it waiting, since others wait for its slot"
            );
        }
        gives_up
    }

    /// Sends rows until the query ends or the client disconnects.
    async fn send_rows(
        self,
        mut rows: RowStream,
        held: Bytes,
        sender: mpsc::Sender<BodyChunk>,
        exception_tag: String,
    ) {
        if !self.send(&sender, held).await {
            return;
        }
        let mut buffer = BytesMut::new();
        loop {
            // Returning drops `rows`, which stops the query. A query that has no rows for a while
            // would not notice by itself that its client has gone.
            let count = tokio::select! {
                count = rows.read(&mut buffer) => count,
                () = sender.closed() => return,
            };
            if count == 0 {
                break;
            }
            let packed = self.packed(buffer.split().freeze());
            if !self.send(&sender, packed).await {
                return;
            }
        }
        let Err(exception) = rows.end().await else {
            let _ = timeout(self.send_max, sender.send(BodyChunk::End)).await;
            return;
        };
        let text = exception.body(&self.engine.version);
        let length = text.len();
        let frame = format!(
            "\r\n__exception__\r\n{exception_tag}\r\n{text}{length} {exception_tag}\r\n__exception__\r\n"
        );
        if self.send(&sender, self.packed(frame.into())).await {
            // hyper throws away what it has not yet written when a body fails, so the frame
            // gets time to leave; a client that reads slower sees the connection break only.
            sleep(FRAME_FLUSH).await;
            let _ = sender
                .send(BodyChunk::Failed(io::Error::other(exception)))
                .await;
        }
    }
}

/// Error response to a request that ran no statement.
pub(crate) fn error_response(exception: &Exception, engine: &Engine) -> Response<Body> {
    let mut response = Response::new(Body::full(exception.body(&engine.version).into()));
    *response.status_mut() = exception.status();
    set(
        response.headers_mut(),
        "x-clickhouse-exception-code",
        &exception.code.to_string(),
    );
    set(
        response.headers_mut(),
        "x-clickhouse-server-display-name",
        &engine.host,
    );
    set(
        response.headers_mut(),
        "content-type",
        "text/plain; charset=UTF-8",
    );
    response
}

/// Short response in plain text.
pub(crate) fn text_response(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    set(
        response.headers_mut(),
        "content-type",
        "text/html; charset=UTF-8",
    );
    response
}

/// Sets a header; a value that no header can hold is left out.
fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn summary_text(summary: &Summary) -> String {
    let Summary {
        read_rows,
        read_bytes,
        written_rows,
        written_bytes,
        result_rows,
        result_bytes,
        elapsed_ns,
    } = summary;
    format!(
        "{{\"read_rows\":\"{read_rows}\",\"read_bytes\":\"{read_bytes}\",\"written_rows\":\"{written_rows}\",\
         \"written_bytes\":\"{written_bytes}\",\"total_rows_to_read\":\"0\",\"result_rows\":\"{result_rows}\",\
         \"result_bytes\":\"{result_bytes}\",\"elapsed_ns\":\"{elapsed_ns}\"}}"
    )
}

fn content_type(format: &str) -> &'static str {
    let lower = format.to_ascii_lowercase();
    match lower.as_str() {
        "tabseparated"
        | "tsv"
        | "tabseparatedraw"
        | "tsvraw"
        | "tabseparatedwithnames"
        | "tsvwithnames"
        | "tabseparatedwithnamesandtypes"
        | "tsvwithnamesandtypes" => "text/tab-separated-values; charset=UTF-8",
        "csv" => "text/csv; charset=UTF-8; header=absent",
        "csvwithnames" | "csvwithnamesandtypes" => "text/csv; charset=UTF-8; header=present",
        "jsoneachrow" | "jsonlines" | "ndjson" | "jsoncompacteachrow" => {
            "application/x-ndjson; charset=UTF-8"
        }
        "xml" => "application/xml; charset=UTF-8",
        "rowbinary"
        | "rowbinarywithnames"
        | "rowbinarywithnamesandtypes"
        | "native"
        | "parquet"
        | "arrow"
        | "arrowstream"
        | "orc"
        | "avro"
        | "protobuf"
        | "msgpack" => "application/octet-stream",
        other if other.starts_with("json") => "application/json; charset=UTF-8",
        _ => "text/plain; charset=UTF-8",
    }
}
