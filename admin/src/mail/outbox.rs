//! Delivery of mails in the background, with retries.

use super::messages::ComposeError;
use super::quota::{self, QuotaTracker};
use super::settings::{MailSettings, Server};
use super::smtp_session::{self, SessionError};
use lettre::message::{Mailbox, Message};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// Most invitations in flight; one that waits for a retry does not count.
pub(super) const MAILS_MAX: usize = 1_000;
/// Most mails that wait for a retry; more are given up.
const RETRYING_MAX: usize = 5_000;
/// Most SMTP sessions at a time.
const SESSIONS_MAX: usize = 4;
/// Most notices in flight.
const NOTICES_MAX: usize = 100;
/// Most mails with sign-in links in flight.
const SIGN_INS_MAX: usize = 100;
/// Most SMTP sessions at a time for notices and sign-in links.
const NOTICE_SESSIONS_MAX: usize = 2;
/// Timeout of one SMTP session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);

/// Failure to deliver a mail.
#[derive(Debug, Error)]
pub(super) enum DeliveryError {
    #[error(transparent)]
    Compose(#[from] ComposeError),
    #[error("the SMTP server: {0}")]
    Smtp(#[from] SessionError),
    #[error("the SMTP server took more than {SESSION_TIMEOUT:?}")]
    Slow,
}

/// Sends a bounded number of mails in the background.
#[derive(Clone)]
pub struct Outbox {
    server: Arc<Server>,
    pub(super) from: Mailbox,
    pub(super) retry_pause: Duration,
    pub(super) organization_quotas: Arc<QuotaTracker<Uuid>>,
    pub(super) user_quotas: Arc<QuotaTracker<i64>>,
    pub(super) address_quotas: Arc<QuotaTracker<String>>,
    pub(super) notice_quotas: Arc<QuotaTracker<Uuid>>,
    pub(super) notices: Arc<Semaphore>,
    pub(super) notice_sessions: Arc<Semaphore>,
    pub(super) sign_ins: Arc<Semaphore>,
    pub(super) slots: Arc<Semaphore>,
    pub(super) retrying: Arc<Semaphore>,
    sessions: Arc<Semaphore>,
    pub(super) tasks: TaskTracker,
}

// === impl Outbox ===

/// Leaves the server out, as its password must not be logged.
impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Outbox");
        shown.field("from", &self.from).finish_non_exhaustive()
    }
}

impl Outbox {
    /// Creates an outbox; it connects with the first mail.
    #[must_use]
    pub fn new(settings: MailSettings) -> Self {
        Self {
            server: Arc::new(settings.server),
            from: settings.from,
            retry_pause: settings.retry_pause,
            organization_quotas: QuotaTracker::new(quota::INVITATIONS),
            user_quotas: QuotaTracker::new(quota::INVITATIONS_BY_USER),
            address_quotas: QuotaTracker::new(quota::INVITATIONS_TO_ADDRESS),
            notice_quotas: QuotaTracker::new(quota::NOTICES),
            notices: Arc::new(Semaphore::new(NOTICES_MAX)),
            notice_sessions: Arc::new(Semaphore::new(NOTICE_SESSIONS_MAX)),
            sign_ins: Arc::new(Semaphore::new(SIGN_INS_MAX)),
            slots: Arc::new(Semaphore::new(MAILS_MAX)),
            retrying: Arc::new(Semaphore::new(RETRYING_MAX)),
            sessions: Arc::new(Semaphore::new(SESSIONS_MAX)),
            tasks: TaskTracker::new(),
        }
    }

    /// Waits at most `grace` for the mails in flight; the rest is lost and logged.
    pub async fn drain(&self, grace: Duration) {
        self.tasks.close();
        if timeout(grace, self.tasks.wait()).await.is_err() {
            let mails = self.tasks.len();
            tracing::warn!(mails, "mails were not delivered before the end");
        }
    }

    /// Tries to deliver one mail, once.
    pub(super) async fn send_once(&self, message: &Message) -> Result<(), DeliveryError> {
        // The semaphore is never closed.
        let _permit = self.sessions.acquire().await;
        let session = smtp_session::deliver(&self.server, message);
        match timeout(SESSION_TIMEOUT, session).await {
            Ok(answered) => Ok(answered?),
            Err(_) => Err(DeliveryError::Slow),
        }
    }
}

/// Logs the result of a delivery: the kind and the reason, neither texts nor links.
pub(super) fn report(kind: &'static str, outcome: Result<(), DeliveryError>) {
    match outcome {
        Ok(()) => tracing::info!(kind, "sent a mail"),
        Err(error) => tracing::warn!(kind, %error, "could not send a mail"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_session_with_a_silent_server_ends_after_a_minute() {
        // The kernel connects, and nobody ever speaks.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let settings = MailSettings::new(&url, "a@example.com", None).unwrap();
        let outbox = Outbox::new(settings);
        let message = Message::builder()
            .from(outbox.from.clone())
            .to(outbox.from.clone())
            .body(String::new())
            .unwrap();
        let began = Instant::now();
        let sent = outbox.send_once(&message).await;
        assert!(matches!(sent, Err(DeliveryError::Slow)), "{sent:?}");
        assert_eq!(began.elapsed().as_secs(), 60);
    }
}
