//! Notices: one text to many members, one after the other.
//!
//! A notice takes no room of invitations, which somebody waits for: notices have places of their
//! own, and only a part of the conversations. Recipients are read page by page, so that a large
//! organization is not held in memory. A letter of a notice is tried once, so that one recipient
//! does not hold up the others, and what is left at the end of the process is lost.

use super::letters::NoticeText;
use super::outbox::Outbox;
use super::quota::Share;
use super::room::report;
use std::error::Error;
use thiserror::Error;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;
use uuid::Uuid;

/// Notices that may be on their way at a time.
pub(super) const NOTICES_MAX: usize = 100;
/// Conversations with the server at a time that are of notices.
pub(super) const CONVERSATIONS_MAX: usize = 2;

/// There is no room for another notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many notices are on their way already, or were sent to the organization in an hour")]
pub struct TooManyNotices;

/// Room for one notice. Dropping it gives it back.
#[derive(Debug)]
pub struct NoticeRoom {
    pub(super) outbox: Outbox,
    pub(super) place: OwnedSemaphorePermit,
    pub(super) share: Share<Uuid>,
}

// === impl NoticeRoom ===

impl NoticeRoom {
    /// Tells everybody on the pages, in the background. `page_after` reads the recipients that
    /// follow a user's number, with theirs, in its order; after the last there are none.
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
            place,
            mut share,
        } = self;
        let tasks = outbox.tasks.clone();
        let told = async move {
            let _until_the_end = (place, share.send_one());
            let mut after = 0;
            loop {
                let page = match page_after(after).await {
                    Ok(page) => page,
                    Err(error) => {
                        tracing::warn!(%error, notice = Text::KIND, "some members are not told");
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
        tasks.spawn(told.in_current_span());
    }
}

async fn tell<Text: NoticeText>(outbox: &Outbox, text: &Text, recipient: &str) {
    let outcome = match text.letter(&outbox.from, recipient) {
        Ok(letter) => {
            // Never closed.
            let _turn = outbox.notice_turns.acquire().await;
            outbox.converse(&letter).await
        }
        Err(error) => Err(error.into()),
    };
    report(Text::KIND, outcome);
}
