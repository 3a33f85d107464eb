//! Mails on their way to the SMTP server.

use super::conversation::{self, ConversationError};
use super::letters::LetterError;
use super::notice::{self, NoticeRoom, TooManyNotices};
use super::quota::{self, Quotas};
use super::room::{Place, Room};
use super::settings::{MailSettings, Server};
use backon::{BackoffBuilder, ExponentialBuilder};
use lettre::message::{Mailbox, Message};
use std::fmt;
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
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoRoom {
    /// For nobody's: the server must be away or slow.
    #[error("{MAILS_MAX} mails are on their way already")]
    Full,
    /// For those of somebody.
    #[error("{of} too many mails on their way already, or had in an hour")]
    Quota {
        /// Of whose share nothing is left.
        of: Quota,
        /// When to come back.
        wait: Duration,
    },
}

/// Somebody who may have so many mails.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Quota {
    /// The one that invites.
    #[error("the organization has")]
    Organization,
    /// The one who sends.
    #[error("the user has")]
    User,
    /// The one that they go to, as it was given. The log does not have it.
    #[error("the recipient has")]
    Address(String),
}

/// Why a mail was not delivered.
#[derive(Debug, Error)]
pub(super) enum DeliveryError {
    #[error(transparent)]
    Letter(#[from] LetterError),
    #[error("the SMTP server: {0}")]
    Smtp(#[from] ConversationError),
    #[error("the SMTP server took more than {CONVERSATION_TIMEOUT:?}")]
    Slow,
}

/// Sends mail in the background, a bounded amount of it.
#[derive(Clone)]
pub struct Outbox {
    server: Arc<Server>,
    pub(super) from: Mailbox,
    retry_pause: Duration,
    quotas: Arc<Quotas<Uuid>>,
    pub(super) user_quotas: Arc<Quotas<i64>>,
    pub(super) address_quotas: Arc<Quotas<String>>,
    notice_quotas: Arc<Quotas<Uuid>>,
    notices: Arc<Semaphore>,
    pub(super) notice_turns: Arc<Semaphore>,
    pub(super) places: Arc<Semaphore>,
    pub(super) resting: Arc<Semaphore>,
    conversations: Arc<Semaphore>,
    pub(super) tasks: TaskTracker,
}

// === impl Outbox ===

/// Without the server: its password is not for logs.
impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Outbox");
        shown.field("from", &self.from).finish_non_exhaustive()
    }
}

impl Outbox {
    /// Connects with the first mail.
    #[must_use]
    pub fn new(settings: MailSettings) -> Self {
        Self {
            server: Arc::new(settings.server),
            from: settings.from,
            retry_pause: settings.retry_pause,
            quotas: Quotas::new(quota::INVITATIONS),
            user_quotas: Quotas::new(quota::INVITATIONS_BY_USER),
            address_quotas: Quotas::new(quota::INVITATIONS_TO_ADDRESS),
            notice_quotas: Quotas::new(quota::NOTICES),
            notices: Arc::new(Semaphore::new(notice::NOTICES_MAX)),
            notice_turns: Arc::new(Semaphore::new(notice::CONVERSATIONS_MAX)),
            places: Arc::new(Semaphore::new(MAILS_MAX)),
            resting: Arc::new(Semaphore::new(RESTING_MAX)),
            conversations: Arc::new(Semaphore::new(CONVERSATIONS_MAX)),
            tasks: TaskTracker::new(),
        }
    }

    /// Takes room for so many mails of an organization; who sends them, and where to, counts with
    /// [`Room::sent_by`] and [`Room::sent_to`].
    ///
    /// # Errors
    ///
    /// Too many are on their way, or too many of the organization's: try again later.
    pub fn reserve(&self, organization: Uuid, mails: u32) -> Result<Room, NoRoom> {
        let share = self.quotas.take(organization, mails);
        let share = share.map_err(|wait| NoRoom::Quota {
            of: Quota::Organization,
            wait,
        })?;
        let places = Arc::clone(&self.places).try_acquire_many_owned(mails);
        Ok(Room {
            outbox: self.clone(),
            places: places.map_err(|_| NoRoom::Full)?,
            share,
            sender: None,
            recipients: Vec::new(),
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
        let conversation = conversation::deliver(&self.server, letter);
        match timeout(CONVERSATION_TIMEOUT, conversation).await {
            Ok(answered) => Ok(answered?),
            Err(_) => Err(DeliveryError::Slow),
        }
    }
}

/// Whether another try may go better: not when the server refuses for good.
fn may_pass(error: &DeliveryError) -> bool {
    match error {
        DeliveryError::Letter(_) => false,
        DeliveryError::Smtp(ConversationError::Smtp(error)) => {
            !error.is_permanent() && !error.is_client()
        }
        DeliveryError::Smtp(ConversationError::Connection(_)) | DeliveryError::Slow => true,
    }
}
