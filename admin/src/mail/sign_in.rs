//! Mails with sign-in links, which anybody may ask for.
//!
//! They take no capacity from invitations: they have slots of their own, and share the SMTP
//! sessions of notices. Capacity is reserved before it is known whether the address has an account,
//! and the rest is done in the background, so that a response tells nothing. A mail is tried once:
//! its link works for minutes, and another one can be asked for.

use super::messages::{ComposeError, MailBody, build_message, recipient};
use super::outbox::{Outbox, report};
use askama::Template;
use lettre::message::{Mailbox, Message};
use std::error::Error;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

const KIND: &str = "sign-in link";

/// A link that signs in.
#[derive(Clone, Debug)]
pub struct SignInMail {
    /// Address of the recipient.
    pub to: String,
    /// Address of the page that signs in. It is a secret: its holder counts as the recipient.
    pub link: String,
    /// Minutes for which the link works.
    pub minutes: u64,
}

impl SignInMail {
    /// Composes the mail.
    ///
    /// # Errors
    ///
    /// The recipient's address is invalid.
    pub fn compose(&self, from: &Mailbox) -> Result<Message, ComposeError> {
        let mail = self;
        let body = MailBody {
            plain: SignInText { mail }.render()?,
            html: SignInHtml { mail }.render()?,
        };
        let to = Mailbox::new(None, recipient(&self.to)?);
        build_message(from, to, None, "Sign in to Millrace", body)
    }
}

#[derive(Template)]
#[template(path = "sign_in.txt")]
struct SignInText<'a> {
    mail: &'a SignInMail,
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInHtml<'a> {
    mail: &'a SignInMail,
}

/// Capacity for one mail with a link. Dropping it gives it back.
#[derive(Debug)]
pub struct SignInSlot {
    outbox: Outbox,
    slot: OwnedSemaphorePermit,
}

impl Outbox {
    /// Reserves capacity for a mail with a sign-in link; `None` if too many are in flight.
    #[must_use]
    pub fn reserve_sign_in(&self) -> Option<SignInSlot> {
        let slot = Arc::clone(&self.sign_ins).try_acquire_owned().ok()?;
        Some(SignInSlot {
            outbox: self.clone(),
            slot,
        })
    }
}

impl SignInSlot {
    /// Makes the mail and sends it, in the background; `None`: there is nobody to send one to.
    pub fn send<Mail, E>(self, mail: Mail)
    where
        Mail: Future<Output = Result<Option<SignInMail>, E>> + Send + 'static,
        E: Error + Send + 'static,
    {
        let Self { outbox, slot } = self;
        let tasks = outbox.tasks.clone();
        let sending = async move {
            let _until_the_end = slot;
            let mail = match mail.await {
                Ok(Some(mail)) => mail,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, kind = KIND, "could not make a mail");
                    return;
                }
            };
            let outcome = match mail.compose(&outbox.from) {
                Ok(message) => {
                    // The semaphore is never closed.
                    let _permit = outbox.notice_sessions.acquire().await;
                    outbox.send_once(&message).await
                }
                Err(error) => Err(error.into()),
            };
            report(KIND, outcome);
        };
        tasks.spawn(sending.in_current_span());
    }
}
