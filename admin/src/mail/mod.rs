//! Mail: from what happened to a letter, and from a letter to the SMTP server.
//!
//! | Module | Holds |
//! |---|---|
//! | `settings` | [`MailSettings`]: the server and the sender, checked once |
//! | `letters` | what the mails say, as text and HTML |
//! | `notice` | [`NoticeRoom`]: one text to many members |
//! | `outbox` | [`Outbox`]: a bounded number of mails on their way, tries, time-outs, drain |
//! | `conversation` | one of those with the server, and how much it may say |
//! | `room` | [`Room`]: places for invitations, and what is sent in them |
//! | `quota` | what an organization may have of both, and a sender and a recipient of invitations |
//!
//! A mail is never part of a transaction: room for it is reserved before, it is handed over after
//! the commit, and the request does not wait for the server. So whoever asks learns that a mail
//! was attempted, not that it arrived; what cannot be delivered is in the log, and an invitation
//! can be sent again. Mails on their way are in memory only: a crash loses them.
//!
//! No text of a user's can add a header or a recipient: addresses are parsed, and everything in a
//! header is one line before it is encoded.

mod conversation;
mod letters;
mod notice;
mod outbox;
mod quota;
mod room;
mod settings;

pub use letters::{
    ExportTrouble, Invitation, LetterError, MemberJoined, NoticeText, Trouble, is_address,
};
pub use notice::{NoticeRoom, TooManyNotices};
pub use outbox::{NoRoom, Outbox, Quota};
pub use room::Room;
pub use settings::{MailSettings, MailSettingsError};

/// Invitations that an organization may send in an hour.
pub(crate) const INVITATIONS_PER_HOUR_MAX: u32 = quota::INVITATIONS.per_hour_max;
/// Invitations that a user may send in an hour.
pub(crate) const INVITATIONS_OF_USER_PER_HOUR_MAX: u32 = quota::INVITATIONS_BY_USER.per_hour_max;
/// Invitations that may be sent to an address in an hour.
pub(crate) const INVITATIONS_TO_ADDRESS_PER_HOUR_MAX: u32 =
    quota::INVITATIONS_TO_ADDRESS.per_hour_max;
