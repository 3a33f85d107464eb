//! Invitations: capacity of the outbox for them, and their retries.

use super::messages::Invitation;
use super::outbox::{DeliveryError, MAILS_MAX, Outbox, report};
use super::quota::QuotaReservation;
use super::smtp_session::SessionError;
use backon::{BackoffBuilder, ExponentialBuilder};
use lettre::message::Message;
use millrace_catalog::email_key;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tracing::Instrument;
use uuid::Uuid;

/// Number of retries after the first try.
const RETRIES_MAX: usize = 5;
/// Factor by which each pause is longer than the one before.
const RETRY_FACTOR: f32 = 4.0;

/// Error: there is no capacity for more mails.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// The outbox is full for everyone: the server must be down or slow.
    #[error("{MAILS_MAX} mails are on their way already")]
    Full,
    /// A quota is used up.
    #[error("{owner} too many mails on their way already, or had in an hour")]
    Quota {
        /// Owner of the quota.
        owner: QuotaOwner,
        /// Time after which to retry.
        wait: Duration,
    },
}

/// Owner of a quota of mails.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuotaOwner {
    /// Organization that invites.
    #[error("the organization has")]
    Organization,
    /// User who sends.
    #[error("the user has")]
    User,
    /// Recipient, as the address was given. It is not logged.
    #[error("the recipient has")]
    Address(String),
}

/// Capacity for invitations, reserved before the invites are committed. Dropping it gives it
/// back.
#[derive(Debug)]
pub struct MailSlots {
    outbox: Outbox,
    permits: OwnedSemaphorePermit,
    quota: QuotaReservation<Uuid>,
    /// Quota of the sender; `None`: no sender is counted.
    sender: Option<QuotaReservation<i64>>,
    /// Quota of each recipient, until their invitation is sent.
    recipients: Vec<QuotaReservation<String>>,
}

/// Slot of one mail in the outbox.
#[derive(Debug)]
struct MailSlot {
    /// Permit among all mails in flight; `None` between two tries.
    permit: Option<OwnedSemaphorePermit>,
    /// Quotas of the organization, the sender and the recipient, until the mail is delivered or
    /// given up.
    _quotas: (
        QuotaReservation<Uuid>,
        Option<QuotaReservation<i64>>,
        Option<QuotaReservation<String>>,
    ),
}

// === impl Outbox ===

impl Outbox {
    /// Reserves capacity for mails of an organization. [`MailSlots::sent_by`] and
    /// [`MailSlots::sent_to`] count them for their sender and their recipients, too.
    ///
    /// # Errors
    ///
    /// Too many mails are in flight, or too many of the organization's: try again later.
    pub fn reserve(&self, organization: Uuid, mails: u32) -> Result<MailSlots, ReserveError> {
        let quota = self.organization_quotas.take(organization, mails);
        let quota = quota.map_err(|wait| ReserveError::Quota {
            owner: QuotaOwner::Organization,
            wait,
        })?;
        let permits = Arc::clone(&self.slots).try_acquire_many_owned(mails);
        Ok(MailSlots {
            outbox: self.clone(),
            permits: permits.map_err(|_| ReserveError::Full)?,
            quota,
            sender: None,
            recipients: Vec::new(),
        })
    }

    /// Delivers one mail, retrying after failures that may pass.
    async fn deliver(&self, message: &Message, slot: &mut MailSlot) -> Result<(), DeliveryError> {
        let mut pauses = ExponentialBuilder::new()
            .with_min_delay(self.retry_pause)
            .with_factor(RETRY_FACTOR)
            .with_max_times(RETRIES_MAX)
            .without_max_delay()
            .with_jitter()
            .build();
        loop {
            let Err(error) = self.send_once(message).await else {
                return Ok(());
            };
            let Some(pause) = pauses.next().filter(|_| is_retryable(&error)) else {
                return Err(error);
            };
            tracing::info!(%error, ?pause, "a mail waits for another try");
            if !slot.wait_for_retry(self, pause).await {
                return Err(error);
            }
        }
    }
}

/// Returns true if a retry may succeed: not if the server refuses for good.
fn is_retryable(error: &DeliveryError) -> bool {
    match error {
        DeliveryError::Compose(_) => false,
        DeliveryError::Smtp(SessionError::Smtp(error)) => {
            !error.is_permanent() && !error.is_client()
        }
        DeliveryError::Smtp(SessionError::Connection(_)) | DeliveryError::Slow => true,
    }
}

// === impl MailSlots ===

impl MailSlots {
    /// Counts the mails against the quota of their sender, over all organizations.
    ///
    /// # Errors
    ///
    /// The user sends too many: try again later.
    pub fn sent_by(mut self, user_id: i64) -> Result<Self, ReserveError> {
        let mails = u32::try_from(self.permits.num_permits()).unwrap_or(u32::MAX);
        let quota = self.outbox.user_quotas.take(user_id, mails);
        let refused = |wait| ReserveError::Quota {
            owner: QuotaOwner::User,
            wait,
        };
        self.sender = Some(quota.map_err(refused)?);
        Ok(self)
    }

    /// Counts one mail against the quota of its recipient, whoever sends it.
    ///
    /// # Errors
    ///
    /// Too many were sent to the address: try again later.
    pub fn sent_to(mut self, address: &str) -> Result<Self, ReserveError> {
        let quota = self.outbox.address_quotas.take(email_key(address), 1);
        let refused = |wait| ReserveError::Quota {
            owner: QuotaOwner::Address(address.to_owned()),
            wait,
        };
        self.recipients.push(quota.map_err(refused)?);
        Ok(self)
    }

    /// Sends one invitation in the background; takes one slot.
    pub fn invite(&mut self, invitation: Invitation) {
        let (outbox, mut slot) = (self.outbox.clone(), self.take_slot(&invitation.to));
        let sent = async move {
            let outcome = match invitation.compose(&outbox.from) {
                Ok(message) => outbox.deliver(&message, &mut slot).await,
                Err(error) => Err(error.into()),
            };
            report("invitation", outcome);
        };
        self.outbox.tasks.spawn(sent.in_current_span());
    }

    fn take_slot(&mut self, address: &str) -> MailSlot {
        let key = email_key(address);
        let recipient = self.recipients.iter_mut().find(|quota| *quota.key() == key);
        let quotas = (
            self.quota.send_one(),
            self.sender.as_mut().map(QuotaReservation::send_one),
            recipient.map(QuotaReservation::send_one),
        );
        MailSlot {
            permit: self.permits.split(1),
            _quotas: quotas,
        }
    }
}

// === impl MailSlot ===

impl MailSlot {
    /// Releases the slot during the pause before a retry, then waits for one again. Returns false
    /// if too many mails wait already.
    async fn wait_for_retry(&mut self, outbox: &Outbox, pause: Duration) -> bool {
        let Ok(_retrying) = outbox.retrying.clone().try_acquire_owned() else {
            return false;
        };
        self.permit = None;
        sleep(pause).await;
        // The semaphore is never closed.
        self.permit = outbox.slots.clone().acquire_owned().await.ok();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::MailSettings;
    use super::*;
    use tokio::task::yield_now;

    fn invitation() -> Invitation {
        Invitation {
            to: "bob@example.org".to_owned(),
            first_name: String::new(),
            organization: "Acme".to_owned(),
            inviter: "Ann".to_owned(),
            inviter_email: "ann@example.com".to_owned(),
            message: None,
            link: "https://millrace.example/signup/t0ken".to_owned(),
            expires_at: "2026-01-04 09:30 UTC".to_owned(),
        }
    }

    #[test]
    fn all_spellings_of_a_mailbox_have_one_limit() {
        for spelled in [
            "BOB@Example.org",
            "bob@e\u{ff58}ample.org",
            "bob@EXAMPLE.org",
        ] {
            assert_eq!(email_key(spelled), email_key("bob@example.org"));
        }
    }

    #[tokio::test]
    async fn five_thousand_mails_wait_for_another_try_and_more_are_given_up() {
        const ORGANIZATIONS: u128 = 52;
        const MAILS_EACH: u32 = 100;
        // Nobody listens there, so each first try fails at once.
        let settings = MailSettings::new("smtp://127.0.0.1:1", "a@b.example", None).unwrap();
        let outbox = Outbox::new(settings.with_retry_pause(Duration::from_secs(3_600)));
        for organization in 0..ORGANIZATIONS {
            let mut slots = loop {
                match outbox.reserve(Uuid::from_u128(organization), MAILS_EACH) {
                    Ok(slots) => break slots,
                    Err(_) => yield_now().await,
                }
            };
            for _ in 0..MAILS_EACH {
                slots.invite(invitation());
            }
        }
        // All have had their first try then.
        while outbox.slots.available_permits() < MAILS_MAX {
            yield_now().await;
        }
        assert_eq!(outbox.tasks.len(), 5_000);
    }
}
