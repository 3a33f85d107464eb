//! Tokens that are good for a while.

use super::api::{Answer, Api};
use crate::error::ExportError;
use millrace_rows::Clock;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A token is replaced so long before its end: a request with all its tries ends before.
const MARGIN_MICROS: i64 = 600_000_000;

/// A token, and for how long it is good.
#[derive(Clone)]
pub(crate) struct Token {
    text: String,
    good_micros: i64,
}

impl Token {
    /// What a server of OAuth answers.
    pub(crate) fn of(api: &Api, answer: &Answer) -> Result<Self, ExportError> {
        if !answer.status.is_success() {
            // 400 is what they answer to a key that they do not know.
            return Err(ExportError::hopeless(format!(
                "The credentials were not accepted ({}).",
                answer.status
            )));
        }
        let text = answer
            .text("/access_token")
            .ok_or_else(|| api.odd(answer))?;
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

/// The newest token, and when it is to be replaced.
pub(crate) struct Kept {
    clock: Arc<dyn Clock>,
    newest: Mutex<Option<(String, i64)>>,
}

impl Kept {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            newest: Mutex::default(),
        }
    }

    /// A token that is good; whoever else wants one waits.
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
