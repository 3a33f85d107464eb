//! Resumable upload: pieces at known offsets, and a query of the server's offset when an answer was
//! lost.

use super::service::BigQueryService;
use crate::destination::warehouse::api::ApiResponse;
use crate::error::ExportError;
use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, LOCATION, RANGE};
use reqwest::{Client, StatusCode, Url};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of all pieces but the last; must be a multiple of 256 KiB.
const PIECE_BYTES: usize = 4 << 20;

/// Resumable upload in progress.
pub(super) struct Upload {
    service: Arc<BigQueryService>,
    session: Url,
    /// Bytes that the server does not have yet: from `sent` on.
    rest: BytesMut,
    /// Number of bytes that the server has.
    sent: u64,
    /// Number of pieces in a row of which the server took nothing.
    stuck: usize,
}

impl Upload {
    /// Starts an upload whose end starts this job.
    pub(super) async fn begin(
        service: Arc<BigQueryService>,
        job: &Value,
    ) -> Result<Self, ExportError> {
        let mut url = service.url("/upload", "jobs");
        url.query_pairs_mut().append_pair("uploadType", "resumable");
        let body = job.to_string();
        let make = |client: &Client| {
            let request = client
                .post(url.clone())
                .header("Content-Type", "application/json");
            let request = request.header("X-Upload-Content-Type", "application/octet-stream");
            request.body(body.clone())
        };
        let answer = service.call(make).await?;
        if !answer.status.is_success() {
            return Err(service.api.refused(&answer));
        }
        let session = answer
            .headers
            .get(LOCATION)
            .and_then(|session| session.to_str().ok());
        let session = session.and_then(|session| Url::parse(session).ok());
        let session = session.ok_or_else(|| service.api.unexpected(&answer))?;
        Ok(Self {
            service,
            session,
            rest: BytesMut::new(),
            sent: 0,
            stuck: 0,
        })
    }

    /// Number of bytes handed over.
    pub(super) fn bytes(&self) -> u64 {
        self.sent + self.rest.len() as u64
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), ExportError> {
        self.rest.extend_from_slice(bytes);
        while self.rest.len() > PIECE_BYTES {
            let piece = Bytes::copy_from_slice(self.rest.get(..PIECE_BYTES).unwrap_or_default());
            let answer = self.put(&piece, "*").await?;
            self.advance(&answer)?;
        }
        Ok(())
    }

    /// Sends the last piece, which starts the job.
    pub(super) async fn end(mut self) -> Result<(), ExportError> {
        let total = self.bytes().to_string();
        loop {
            let piece = self.rest.clone().freeze();
            let answer = self.put(&piece, &total).await?;
            if answer.status.is_success() {
                return Ok(());
            }
            self.advance(&answer)?;
        }
    }

    /// Drops the bytes that the server has by now. That may be a part of a piece, and sometimes
    /// nothing of it.
    fn advance(&mut self, answer: &ApiResponse) -> Result<(), ExportError> {
        match answer.status {
            StatusCode::PERMANENT_REDIRECT => {}
            // A session ends after a week, and sometimes before.
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                let message = "BigQuery has ended the upload; another try begins a new one.";
                return Err(ExportError::retryable(message));
            }
            _ => return Err(self.service.api.refused(answer)),
        }
        let unexpected = || self.service.api.unexpected(answer);
        // `bytes=0-41`: 42 bytes.
        let range = answer
            .headers
            .get(RANGE)
            .and_then(|range| range.to_str().ok());
        let last = range.and_then(|range| range.rsplit('-').next()?.parse::<u64>().ok());
        let has = last.map_or(0, |last| last.saturating_add(1));
        let new = has.checked_sub(self.sent).ok_or_else(unexpected)?;
        let new = usize::try_from(new)
            .ok()
            .filter(|new| *new <= self.rest.len())
            .ok_or_else(unexpected)?;
        drop(self.rest.split_to(new));
        self.sent = has;
        self.stuck = if new == 0 { self.stuck + 1 } else { 0 };
        if self.stuck > self.service.api.retry_policy.tries_max {
            return Err(ExportError::retryable("BigQuery accepts no rows now."));
        }
        Ok(())
    }

    /// Sends a piece. If no answer comes, the server is asked how much of it it has, and the piece
    /// is not sent again.
    async fn put(&self, piece: &Bytes, total: &str) -> Result<ApiResponse, ExportError> {
        let last = (self.sent + piece.len() as u64).saturating_sub(1);
        let range = format!("bytes {}-{last}/{total}", self.sent);
        let is_first = AtomicBool::new(!piece.is_empty());
        let make = |client: &Client| {
            let request = client.put(self.session.clone());
            if is_first.swap(false, Ordering::Relaxed) {
                return request.header(CONTENT_RANGE, &range).body(piece.clone());
            }
            request
                .header(CONTENT_RANGE, format!("bytes */{total}"))
                .header(CONTENT_LENGTH, "0")
        };
        self.service.call(make).await
    }
}
