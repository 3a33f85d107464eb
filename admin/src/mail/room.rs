//! Room for invitations, and what is sent in it.

use super::letters::Invitation;
use super::outbox::{DeliveryError, NoRoom, Outbox, Quota};
use super::quota::Share;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tracing::Instrument;
use uuid::Uuid;

/// Room for invitations, taken before what they tell of is committed. Dropping it gives it back.
#[derive(Debug)]
pub struct Room {
    pub(super) outbox: Outbox,
    pub(super) places: OwnedSemaphorePermit,
    pub(super) share: Share<Uuid>,
    /// Of who sends the invitations; `None`: nobody's count.
    pub(super) sender: Option<Share<i64>>,
    /// One of each recipient, until their invitation is sent.
    pub(super) recipients: Vec<Share<String>>,
}

/// The place of one mail.
#[derive(Debug)]
pub(super) struct Place {
    /// Among those of all; none between two tries.
    permit: Option<OwnedSemaphorePermit>,
    /// Among those of its organization, its sender and its recipient, until it is delivered or given up.
    _shares: (Share<Uuid>, Option<Share<i64>>, Option<Share<String>>),
}

// === impl Room ===

impl Room {
    /// Counts all of it for who sends the invitations, in whichever organizations.
    ///
    /// # Errors
    ///
    /// The user sends too many: try again later.
    pub fn sent_by(mut self, user_id: i64) -> Result<Self, NoRoom> {
        let mails = u32::try_from(self.places.num_permits()).unwrap_or(u32::MAX);
        let share = self.outbox.user_quotas.take(user_id, mails);
        let refused = |wait| NoRoom::Quota {
            of: Quota::User,
            wait,
        };
        self.sender = Some(share.map_err(refused)?);
        Ok(self)
    }

    /// Counts one mail for an address, whoever sends it.
    ///
    /// # Errors
    ///
    /// Too many were sent there: try again later.
    pub fn sent_to(mut self, address: &str) -> Result<Self, NoRoom> {
        let share = self.outbox.address_quotas.take(address_key(address), 1);
        let refused = |wait| NoRoom::Quota {
            of: Quota::Address(address.to_owned()),
            wait,
        };
        self.recipients.push(share.map_err(refused)?);
        Ok(self)
    }

    /// Sends one invitation; takes one place.
    pub fn invite(&mut self, invitation: Invitation) {
        let (outbox, mut place) = (self.outbox.clone(), self.place(&invitation.to));
        let sent = async move {
            let outcome = match invitation.letter(&outbox.from) {
                Ok(letter) => outbox.deliver(&letter, &mut place).await,
                Err(error) => Err(error.into()),
            };
            report("invitation", outcome);
        };
        self.outbox.tasks.spawn(sent.in_current_span());
    }

    fn place(&mut self, address: &str) -> Place {
        let key = address_key(address);
        let recipient = self.recipients.iter_mut().find(|share| *share.of() == key);
        let shares = (
            self.share.send_one(),
            self.sender.as_mut().map(Share::send_one),
            recipient.map(Share::send_one),
        );
        Place {
            permit: self.places.split(1),
            _shares: shares,
        }
    }
}

/// One spelling of an address.
fn address_key(address: &str) -> String {
    address.trim().to_lowercase()
}

// === impl Place ===

impl Place {
    /// Lets others have the place for so long, and waits for one then. `false`: too many wait
    /// already.
    pub(super) async fn rest(&mut self, outbox: &Outbox, pause: Duration) -> bool {
        let Ok(_resting) = outbox.resting.clone().try_acquire_owned() else {
            return false;
        };
        self.permit = None;
        sleep(pause).await;
        // Never closed.
        self.permit = outbox.places.clone().acquire_owned().await.ok();
        true
    }
}

/// The log has the kind and the reason; neither texts nor links.
pub(super) fn report(kind: &'static str, outcome: Result<(), DeliveryError>) {
    match outcome {
        Ok(()) => tracing::info!(kind, "sent a mail"),
        Err(error) => tracing::warn!(kind, %error, "could not send a mail"),
    }
}
