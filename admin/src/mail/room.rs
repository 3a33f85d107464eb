//! Room for invitations, and what is sent in it.

use super::letters::Invitation;
use super::outbox::{DeliveryError, Outbox};
use super::quota::Share;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tracing::Instrument;

/// Room for invitations, taken before what they tell of is committed. Dropping it gives it back.
#[derive(Debug)]
pub struct Room {
    pub(super) outbox: Outbox,
    pub(super) places: OwnedSemaphorePermit,
    pub(super) share: Share,
}

/// The place of one mail.
#[derive(Debug)]
pub(super) struct Place {
    /// Among those of all; none between two tries.
    permit: Option<OwnedSemaphorePermit>,
    /// Among those of its organization, until it is delivered or given up.
    _share: Share,
}

// === impl Room ===

impl Room {
    /// Sends one invitation; takes one place.
    pub fn invite(&mut self, invitation: Invitation) {
        let (outbox, mut place) = (self.outbox.clone(), self.place());
        let sent = async move {
            let outcome = match invitation.letter(&outbox.from) {
                Ok(letter) => outbox.deliver(&letter, &mut place).await,
                Err(error) => Err(error.into()),
            };
            report("invitation", outcome);
        };
        self.outbox.tasks.spawn(sent.in_current_span());
    }

    fn place(&mut self) -> Place {
        Place {
            permit: self.places.split(1),
            _share: self.share.send_one(),
        }
    }
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
