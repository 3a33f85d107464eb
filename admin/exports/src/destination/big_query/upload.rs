//! One resumable upload: pieces of a known place, and a question where the server is when an
//! answer was lost.

use super::account::Account;
use crate::destination::warehouse::api::Answer;
use crate::error::ExportError;
use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_RANGE, LOCATION, RANGE};
use reqwest::{Client, StatusCode, Url};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pieces but the last one must have a multiple of 256 KiB.
const PIECE_BYTES: usize = 4 << 20;

/// An upload that has begun.
pub(super) struct Upload {
    account: Arc<Account>,
    session: Url,
    /// What was not sent yet: from `sent` on.
    rest: BytesMut,
    /// How many bytes the server has.
    sent: u64,
    /// How often it has taken nothing since it last took something.
    stuck: usize,
}

impl Upload {
    /// Begins an upload whose end begins this job.
    pub(super) async fn begin(account: Arc<Account>, job: &Value) -> Result<Self, ExportError> {
        let mut url = account.url("/upload", "jobs");
        url.query_pairs_mut().append_pair("uploadType", "resumable");
        let body = job.to_string();
        let make = |client: &Client| {
            let request = client
                .post(url.clone())
                .header("Content-Type", "application/json");
            let request = request.header("X-Upload-Content-Type", "application/octet-stream");
            request.body(body.clone())
        };
        let answer = account.call(make).await?;
        if !answer.status.is_success() {
            return Err(account.api.refused(&answer));
        }
        let session = answer
            .headers
            .get(LOCATION)
            .and_then(|session| session.to_str().ok());
        let session = session.and_then(|session| Url::parse(session).ok());
        let session = session.ok_or_else(|| account.api.odd(&answer))?;
        Ok(Self {
            account,
            session,
            rest: BytesMut::new(),
            sent: 0,
            stuck: 0,
        })
    }

    /// How many bytes were handed over.
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

    /// Sends the last piece, and the job begins.
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

    /// Takes away what the server has now. That may be a part of a piece, and now and then
    /// nothing of it.
    fn advance(&mut self, answer: &Answer) -> Result<(), ExportError> {
        if answer.status != StatusCode::PERMANENT_REDIRECT {
            return Err(self.account.api.refused(answer));
        }
        let odd = || self.account.api.odd(answer);
        // `bytes=0-41`: 42 bytes.
        let range = answer
            .headers
            .get(RANGE)
            .and_then(|range| range.to_str().ok());
        let last = range.and_then(|range| range.rsplit('-').next()?.parse::<u64>().ok());
        let has = last.map_or(0, |last| last.saturating_add(1));
        let new = has.checked_sub(self.sent).ok_or_else(odd)?;
        let new = usize::try_from(new)
            .ok()
            .filter(|new| *new <= self.rest.len())
            .ok_or_else(odd)?;
        drop(self.rest.split_to(new));
        self.sent = has;
        self.stuck = if new == 0 { self.stuck + 1 } else { 0 };
        if self.stuck > self.account.api.pace.tries_max {
            return Err(ExportError::retry("BigQuery takes no rows now."));
        }
        Ok(())
    }

    /// Sends a piece. How much of it the server has is not known if no answer comes: then it is
    /// asked, and the piece is not sent again.
    async fn put(&self, piece: &Bytes, total: &str) -> Result<Answer, ExportError> {
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
                .body("")
        };
        self.account.call(make).await
    }
}
