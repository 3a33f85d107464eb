//! Access tokens, cached until shortly before they expire.

use super::api::{Api, ApiResponse};
use crate::error::ExportError;
use millrace_rows::Clock;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Time before its expiry at which a token is replaced: a request with all its retries ends within
/// it.
const MARGIN_MICROS: i64 = 600_000_000;

/// Access token with its lifetime.
#[derive(Clone)]
pub(crate) struct Token {
    text: String,
    good_micros: i64,
}

impl Token {
    /// Reads a token from the answer of an OAuth server.
    pub(crate) fn of(api: &Api, answer: &ApiResponse) -> Result<Self, ExportError> {
        if !answer.status.is_success() {
            // Servers answer 400 to a key that they do not know.
            return Err(ExportError::permanent(format!(
                "The credentials were not accepted ({}).",
                answer.status
            )));
        }
        let text = answer
            .text("/access_token")
            .ok_or_else(|| api.unexpected(answer))?;
        let good = answer
            .body
            .pointer("/expires_in")
            .and_then(serde_json::Value::as_i64);
        Ok(Self {
            text: text.to_owned(),
            good_micros: good.unwrap_or(0).saturating_mul(1_000_000),
        })
    }
}

/// Cache of the newest token, with the time at which to replace it.
pub(crate) struct CachedToken {
    clock: Arc<dyn Clock>,
    newest: Mutex<Option<(String, i64)>>,
}

impl CachedToken {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            newest: Mutex::default(),
        }
    }

    /// Returns a valid token; concurrent callers wait for one login.
    pub(crate) async fn get<F: Future<Output = Result<Token, ExportError>>>(
        &self,
        log_in: impl FnOnce() -> F,
    ) -> Result<String, ExportError> {
        let mut newest = self.newest.lock().await;
        let now = self.clock.now().0;
        if let Some((token, _)) = newest.as_ref().filter(|(_, until)| now < *until) {
            return Ok(token.clone());
        }
        let token = log_in().await?;
        let until = now.saturating_add(token.good_micros - MARGIN_MICROS);
        *newest = Some((token.text.clone(), until));
        Ok(token.text)
    }
}
