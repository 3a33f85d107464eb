//! Mails: their contents, their delivery to the SMTP server, and limits on both.
//!
//! | Module | Holds |
//! |---|---|
//! | `settings` | [`MailSettings`]: the server and the sender, validated |
//! | `messages` | contents of the mails, as text and HTML |
//! | `notice` | [`NoticeSlot`]: one text to many members |
//! | `sign_in` | [`SignInSlot`]: a link that somebody asked for |
//! | `outbox` | [`Outbox`]: bounded delivery in the background, time-outs, drain |
//! | `smtp_session` | delivery of one mail, with a limit on what the server may send |
//! | `trial` | a session without a mail, to check the settings |
//! | `slots` | [`MailSlots`]: capacity reserved for invitations, and their retries |
//! | `quota` | limits on the mails of an organization, of a sender and to a recipient |
//!
//! A mail is never part of a transaction: capacity for it is reserved before, it is handed over
//! after the commit, and the request does not wait for the server. So the response says that a
//! mail was attempted, not that it arrived; failed deliveries are in the log, and an invitation
//! can be sent again. Undelivered mails are in memory only: a crash loses them.
//!
//! No text of a user can add a header or a recipient: addresses are parsed, and everything in a
//! header is reduced to one line before it is encoded.

mod messages;
mod notice;
mod outbox;
mod quota;
mod settings;
mod sign_in;
mod slots;
mod smtp_session;
mod trial;

pub use messages::{
    ComposeError, ExportAlert, ExportProblem, Invitation, MemberJoined, NoticeText, is_address,
};
pub use notice::{NoticeSlot, TooManyNotices};
pub use outbox::Outbox;
pub use settings::{MailSettings, MailSettingsError};
pub use sign_in::{SignInMail, SignInSlot};
pub use slots::{MailSlots, QuotaOwner, ReserveError};
pub use trial::MailTrialError;

/// Invitations that an organization may send in an hour.
pub(crate) const INVITATIONS_PER_HOUR_MAX: u32 = quota::INVITATIONS.per_hour_max;
/// Invitations that a user may send in an hour.
pub(crate) const INVITATIONS_OF_USER_PER_HOUR_MAX: u32 = quota::INVITATIONS_BY_USER.per_hour_max;
/// Invitations that may be sent to an address in an hour.
pub(crate) const INVITATIONS_TO_ADDRESS_PER_HOUR_MAX: u32 =
    quota::INVITATIONS_TO_ADDRESS.per_hour_max;
