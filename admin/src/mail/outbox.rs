//! Mails on their way to the SMTP server.

use super::letters::LetterError;
use super::notice::{self, NoticeRoom, TooManyNotices};
use super::quota::{self, Quotas};
use super::room::{Place, Room};
use super::settings::MailSettings;
use backon::{BackoffBuilder, ExponentialBuilder};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::Error as SmtpError;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// Invitations that may be on their way at a time; one that waits for another try does not count.
const MAILS_MAX: usize = 1_000;
/// Mails that may wait for another try at a time; more are given up.
const RESTING_MAX: usize = 5_000;
/// Conversations with the server at a time.
const CONVERSATIONS_MAX: usize = 4;
/// How long one conversation may take.
const CONVERSATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Tries after the first.
const RETRIES_MAX: usize = 5;
/// How much longer each pause is than the one before.
const RETRY_FACTOR: f32 = 4.0;

/// There is no room for more mails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoRoom {
    /// For nobody's: the server must be away or slow.
    #[error("{MAILS_MAX} mails are on their way already")]
    Full,
    /// For those of this organization.
    #[error(
        "the organization has {} mails on their way already, or had {} in an hour",
        quota::INVITATIONS.at_a_time_max,
        quota::INVITATIONS.per_hour_max
    )]
    Quota {
        /// When to come back.
        wait: Duration,
    },
}

/// Why a mail was not delivered.
#[derive(Debug, Error)]
pub(super) enum DeliveryError {
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
    pub(super) from: Mailbox,
    retry_pause: Duration,
    quotas: Arc<Quotas>,
    notice_quotas: Arc<Quotas>,
    notices: Arc<Semaphore>,
    pub(super) notice_turns: Arc<Semaphore>,
    pub(super) places: Arc<Semaphore>,
    pub(super) resting: Arc<Semaphore>,
    conversations: Arc<Semaphore>,
    pub(super) tasks: TaskTracker,
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
            quotas: Quotas::new(quota::INVITATIONS),
            notice_quotas: Quotas::new(quota::NOTICES),
            notices: Arc::new(Semaphore::new(notice::NOTICES_MAX)),
            notice_turns: Arc::new(Semaphore::new(notice::CONVERSATIONS_MAX)),
            places: Arc::new(Semaphore::new(MAILS_MAX)),
            resting: Arc::new(Semaphore::new(RESTING_MAX)),
            conversations: Arc::new(Semaphore::new(CONVERSATIONS_MAX)),
            tasks: TaskTracker::new(),
        }
    }

    /// Takes room for so many mails of an organization.
    ///
    /// # Errors
    ///
    /// Too many are on their way, or too many of the organization's: try again later.
    pub fn reserve(&self, organization: Uuid, mails: u32) -> Result<Room, NoRoom> {
        let share = self.quotas.take(organization, mails);
        let share = share.map_err(|wait| NoRoom::Quota { wait })?;
        let places = Arc::clone(&self.places).try_acquire_many_owned(mails);
        Ok(Room {
            outbox: self.clone(),
            places: places.map_err(|_| NoRoom::Full)?,
            share,
        })
    }

    /// Takes room for a notice to an organization's members: no room of invitations.
    ///
    /// # Errors
    ///
    /// Too many notices are on their way, or too many of the organization's.
    pub fn reserve_notice(&self, organization: Uuid) -> Result<NoticeRoom, TooManyNotices> {
        let place = Arc::clone(&self.notices).try_acquire_owned();
        let place = place.map_err(|_| TooManyNotices)?;
        let share = self.notice_quotas.take(organization, 1);
        Ok(NoticeRoom {
            outbox: self.clone(),
            place,
            share: share.map_err(|_| TooManyNotices)?,
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
    pub(super) async fn deliver(
        &self,
        letter: &Message,
        place: &mut Place,
    ) -> Result<(), DeliveryError> {
        let mut pauses = ExponentialBuilder::new()
            .with_min_delay(self.retry_pause)
            .with_factor(RETRY_FACTOR)
            .with_max_times(RETRIES_MAX)
            .without_max_delay()
            .with_jitter()
            .build();
        loop {
            let Err(error) = self.converse(letter).await else {
                return Ok(());
            };
            let Some(pause) = pauses.next().filter(|_| may_pass(&error)) else {
                return Err(error);
            };
            tracing::info!(%error, ?pause, "a mail waits for another try");
            if !place.rest(self, pause).await {
                return Err(error);
            }
        }
    }

    /// Tries to deliver one letter, once.
    pub(super) async fn converse(&self, letter: &Message) -> Result<(), DeliveryError> {
        // Never closed.
        let _turn = self.conversations.acquire().await;
        match timeout(CONVERSATION_TIMEOUT, self.server.send(letter.clone())).await {
            Ok(answered) => Ok(answered.map(drop)?),
            Err(_) => Err(DeliveryError::Slow),
        }
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
