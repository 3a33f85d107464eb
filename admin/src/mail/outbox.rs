//! Mails on their way to the SMTP server.

use super::letters::{Invitation, LetterError, MemberJoined};
use super::settings::MailSettings;
use backon::{ExponentialBuilder, Retryable};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::Error as SmtpError;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Mails that may be on their way at a time; a notice to many members counts as one.
const MAILS_MAX: usize = 1_000;
/// Conversations with the server at a time.
const CONVERSATIONS_MAX: usize = 4;
/// How long one conversation may take.
const CONVERSATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Tries after the first.
const RETRIES_MAX: usize = 5;
/// How much longer each pause is than the one before.
const RETRY_FACTOR: f32 = 4.0;

/// There is no room for more mails; the server must be away or slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{MAILS_MAX} mails are on their way already")]
pub struct OutboxFull;

/// Why a mail was not delivered.
#[derive(Debug, Error)]
enum DeliveryError {
    #[error(transparent)]
    Letter(#[from] LetterError),
    #[error("the SMTP server: {0}")]
    Smtp(#[from] SmtpError),
    #[error("the SMTP server took more than {CONVERSATION_TIMEOUT:?}")]
    Slow,
}

/// Sends mail in the background, a bounded amount of it.
#[derive(Clone, Debug)]
pub struct Outbox {
    server: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    retry_pause: Duration,
    room: Arc<Semaphore>,
    conversations: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// Room for mails, taken before what they tell of is committed. Dropping it gives it back.
#[derive(Debug)]
pub struct Room {
    outbox: Outbox,
    permits: OwnedSemaphorePermit,
}

// === impl Outbox ===

impl Outbox {
    /// Connects with the first mail.
    #[must_use]
    pub fn new(settings: MailSettings) -> Self {
        Self {
            server: settings.server.build(),
            from: settings.from,
            retry_pause: settings.retry_pause,
            room: Arc::new(Semaphore::new(MAILS_MAX)),
            conversations: Arc::new(Semaphore::new(CONVERSATIONS_MAX)),
            tasks: TaskTracker::new(),
        }
    }

    /// Takes room for so many mails.
    ///
    /// # Errors
    ///
    /// Too many are on their way: try again later.
    pub fn reserve(&self, mails: u32) -> Result<Room, OutboxFull> {
        let permits = Arc::clone(&self.room).try_acquire_many_owned(mails);
        Ok(Room {
            outbox: self.clone(),
            permits: permits.map_err(|_| OutboxFull)?,
        })
    }

    /// Waits for the mails on their way, so long; what is left then is lost, and said so.
    pub async fn drain(&self, grace: Duration) {
        self.tasks.close();
        if timeout(grace, self.tasks.wait()).await.is_err() {
            let mails = self.tasks.len();
            tracing::warn!(mails, "mails were not delivered before the end");
        }
    }

    /// Delivers one letter, trying again where that may help.
    async fn deliver(&self, letter: &Message) -> Result<(), DeliveryError> {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(self.retry_pause)
            .with_factor(RETRY_FACTOR)
            .with_max_times(RETRIES_MAX)
            .without_max_delay()
            .with_jitter();
        (|| self.converse(letter))
            .retry(pauses)
            .when(may_pass)
            .notify(|error, pause| tracing::info!(%error, ?pause, "a mail waits for another try"))
            .await
    }

    async fn converse(&self, letter: &Message) -> Result<(), DeliveryError> {
        // Never closed.
        let _turn = self.conversations.acquire().await;
        match timeout(CONVERSATION_TIMEOUT, self.server.send(letter.clone())).await {
            Ok(answered) => Ok(answered.map(drop)?),
            Err(_) => Err(DeliveryError::Slow),
        }
    }
}

// === impl Room ===

impl Room {
    /// Sends one invitation; takes one place.
    pub fn invite(&mut self, invitation: Invitation) {
        let outbox = self.outbox.clone();
        let permit = self.permits.split(1);
        let sent = async move {
            let outcome = match invitation.letter(&outbox.from) {
                Ok(letter) => outbox.deliver(&letter).await,
                Err(error) => Err(error.into()),
            };
            report("invitation", outcome);
            drop(permit);
        };
        self.outbox.tasks.spawn(sent.in_current_span());
    }

    /// Tells each of the recipients, one after the other; takes one place.
    pub fn announce(&mut self, joined: MemberJoined, recipients: Vec<String>) {
        let outbox = self.outbox.clone();
        let permit = self.permits.split(1);
        let sent = async move {
            for recipient in recipients {
                let outcome = match joined.letter(&outbox.from, &recipient) {
                    Ok(letter) => outbox.deliver(&letter).await,
                    Err(error) => Err(error.into()),
                };
                report("member joined", outcome);
            }
            drop(permit);
        };
        self.outbox.tasks.spawn(sent.in_current_span());
    }
}

/// Whether another try may go better: not when the server refuses for good.
fn may_pass(error: &DeliveryError) -> bool {
    match error {
        DeliveryError::Letter(_) => false,
        DeliveryError::Smtp(error) => !error.is_permanent() && !error.is_client(),
        DeliveryError::Slow => true,
    }
}

/// The log has the kind and the reason; neither texts nor links.
fn report(kind: &'static str, outcome: Result<(), DeliveryError>) {
    match outcome {
        Ok(()) => tracing::info!(kind, "sent a mail"),
        Err(error) => tracing::warn!(kind, %error, "could not send a mail"),
    }
}
