//! Notices: one text to many members, one after the other.
//!
//! Notices take no capacity from invitations, which somebody waits for: they have slots of their
//! own, and only a part of the SMTP sessions. Recipients are read page by page, so that a large
//! organization is not held in memory. Each mail of a notice is tried once, so that one recipient
//! does not delay the others. Mails that are not sent when the process ends are lost.

use super::messages::NoticeText;
use super::outbox::{Outbox, report};
use super::quota::QuotaReservation;
use std::error::Error;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;
use uuid::Uuid;

/// Error: there is no capacity for another notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many notices are on their way already, or were sent to the organization in an hour")]
pub struct TooManyNotices;

/// Capacity for one notice. Dropping it gives it back.
#[derive(Debug)]
pub struct NoticeSlot {
    outbox: Outbox,
    slot: OwnedSemaphorePermit,
    quota: QuotaReservation<Uuid>,
}

// === impl Outbox ===

impl Outbox {
    /// Reserves capacity for a notice to an organization's members, apart from invitations.
    ///
    /// # Errors
    ///
    /// Too many notices are in flight, or too many of the organization's.
    pub fn reserve_notice(&self, organization: Uuid) -> Result<NoticeSlot, TooManyNotices> {
        let slot = Arc::clone(&self.notices).try_acquire_owned();
        let slot = slot.map_err(|_| TooManyNotices)?;
        let quota = self.notice_quotas.take(organization, 1);
        Ok(NoticeSlot {
            outbox: self.clone(),
            slot,
            quota: quota.map_err(|_| TooManyNotices)?,
        })
    }
}

// === impl NoticeSlot ===

impl NoticeSlot {
    /// Sends the notice to everybody on the pages, in the background. `page_after` reads the
    /// recipients after a user id, with their ids, in ascending order; the page after the last one
    /// is empty.
    pub fn announce<Text, Page, E>(
        self,
        text: Text,
        mut page_after: impl FnMut(i64) -> Page + Send + 'static,
    ) where
        Text: NoticeText,
        Page: Future<Output = Result<Vec<(i64, String)>, E>> + Send,
        E: Error + Send,
    {
        let Self {
            outbox,
            slot,
            mut quota,
        } = self;
        let tasks = outbox.tasks.clone();
        let sending = async move {
            let _until_the_end = (slot, quota.send_one());
            let mut after = 0;
            loop {
                let page = match page_after(after).await {
                    Ok(page) => page,
                    Err(error) => {
                        tracing::warn!(%error, notice = Text::KIND, "some members are not notified");
                        return;
                    }
                };
                let Some((last, _)) = page.last() else { return };
                after = *last;
                for (_, recipient) in page {
                    tell(&outbox, &text, &recipient).await;
                }
            }
        };
        tasks.spawn(sending.in_current_span());
    }
}

async fn tell<Text: NoticeText>(outbox: &Outbox, text: &Text, recipient: &str) {
    let outcome = match text.compose(&outbox.from, recipient) {
        Ok(message) => {
            // The semaphore is never closed.
            let _permit = outbox.notice_sessions.acquire().await;
            outbox.send_once(&message).await
        }
        Err(error) => Err(error.into()),
    };
    report(Text::KIND, outcome);
}
