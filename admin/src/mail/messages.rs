//! Contents of the mails, as text and HTML.

use askama::Template;
use lettre::Address;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message, MultiPart};
use millrace_catalog::text;
use thiserror::Error;

/// Failure to compose a mail.
#[derive(Debug, Error)]
pub enum ComposeError {
    /// The recipient's address is invalid.
    #[error("the recipient's address is not valid: {0}")]
    Recipient(lettre::address::AddressError),
    /// A template failed. Templates accept every text, so this is a bug.
    #[error("a template failed: {0}")]
    Template(#[from] askama::Error),
    /// The mail library refused the message.
    #[error("the mail cannot be composed: {0}")]
    Message(#[from] lettre::error::Error),
}

/// Returns true if the text is an e-mail address.
pub fn is_address(text: &str) -> bool {
    text.parse::<Address>().is_ok()
}

/// An invitation to an organization.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// Address of the recipient.
    pub to: String,
    /// Name for the greeting; may be empty.
    pub first_name: String,
    /// Name of the organization.
    pub organization: String,
    /// Name of the inviter; the address if there is no name.
    pub inviter: String,
    /// Address for replies.
    pub inviter_email: String,
    /// Message of the inviter.
    pub message: Option<String>,
    /// Address of the page that accepts. It is a secret: its holder counts as the recipient.
    pub link: String,
    /// End of validity, for people.
    pub expires_at: String,
}

impl Invitation {
    /// Composes the mail.
    ///
    /// # Errors
    ///
    /// The recipient's address is invalid.
    pub fn compose(&self, from: &Mailbox) -> Result<Message, ComposeError> {
        let mail = &self.shown();
        let body = MailBody {
            plain: InvitationText { mail }.render()?,
            html: InvitationHtml { mail }.render()?,
        };
        let subject = format!("{} invited you to {}", mail.inviter, mail.organization);
        let name = Some(one_line(&mail.first_name)).filter(|name| !name.is_empty());
        let to = Mailbox::new(name, recipient(&mail.to)?);
        let reply_to = mailbox(&mail.inviter, &mail.inviter_email);
        build_message(from, to, reply_to, &subject, body)
    }
}

impl Invitation {
    /// Escapes control characters, which names from before the rule against them may have.
    fn shown(&self) -> Self {
        Self {
            first_name: shown(&self.first_name),
            organization: shown(&self.organization),
            inviter: shown(&self.inviter),
            message: self.message.as_deref().map(shown),
            ..self.clone()
        }
    }
}

fn shown(text: &str) -> String {
    text::shown(text.trim()).into_owned()
}

#[derive(Template)]
#[template(path = "invitation.txt")]
struct InvitationText<'a> {
    mail: &'a Invitation,
}

#[derive(Template)]
#[template(path = "invitation.html")]
struct InvitationHtml<'a> {
    mail: &'a Invitation,
}

/// Text of a notice that goes to many recipients, each in a mail of their own.
pub trait NoticeText: Send + Sync + 'static {
    /// Kind of the notice, for the log.
    const KIND: &'static str;

    /// Composes the mail to one recipient.
    ///
    /// # Errors
    ///
    /// The recipient's address is invalid.
    fn compose(&self, from: &Mailbox, to: &str) -> Result<Message, ComposeError>;
}

/// Notice to members that somebody joined the organization.
#[derive(Clone, Debug)]
pub struct MemberJoined {
    /// Name of the new member; the address if there is no name.
    pub member: String,
    /// Address of the new member.
    pub email: String,
    /// Name of the organization.
    pub organization: String,
}

impl NoticeText for MemberJoined {
    const KIND: &'static str = "member joined";

    fn compose(&self, from: &Mailbox, to: &str) -> Result<Message, ComposeError> {
        let mail = &Self {
            member: shown(&self.member),
            email: shown(&self.email),
            organization: shown(&self.organization),
        };
        let body = MailBody {
            plain: MemberJoinedText { mail }.render()?,
            html: MemberJoinedHtml { mail }.render()?,
        };
        let subject = format!("{} joined {}", mail.member, mail.organization);
        let to = Mailbox::new(None, recipient(to)?);
        build_message(from, to, None, &subject, body)
    }
}

#[derive(Template)]
#[template(path = "member_joined.txt")]
struct MemberJoinedText<'a> {
    mail: &'a MemberJoined,
}

#[derive(Template)]
#[template(path = "member_joined.html")]
struct MemberJoinedHtml<'a> {
    mail: &'a MemberJoined,
}

/// Problem of an export that needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportProblem {
    /// A run failed for good; later runs go on.
    RunFailed,
    /// The export was paused.
    Paused,
    /// Runs have waited for the server's operator for an hour.
    Waits,
}

/// Notice to administrators about an export that needs attention.
#[derive(Clone, Debug)]
pub struct ExportAlert {
    /// Name of the export.
    pub export: String,
    /// Name of the organization.
    pub organization: String,
    /// Problem of the export.
    pub problem: ExportProblem,
    /// Error message.
    pub why: String,
    /// Path of the export, below the API's address.
    pub path: String,
}

#[derive(Template)]
#[template(path = "export_alert.txt")]
struct ExportAlertText<'a> {
    mail: &'a ExportAlert,
}

#[derive(Template)]
#[template(path = "export_alert.html")]
struct ExportAlertHtml<'a> {
    mail: &'a ExportAlert,
}

impl NoticeText for ExportAlert {
    const KIND: &'static str = "export trouble";

    fn compose(&self, from: &Mailbox, to: &str) -> Result<Message, ComposeError> {
        let mail = &Self {
            export: shown(&self.export),
            organization: shown(&self.organization),
            why: shown(&self.why),
            ..self.clone()
        };
        let body = MailBody {
            plain: ExportAlertText { mail }.render()?,
            html: ExportAlertHtml { mail }.render()?,
        };
        let what = match self.problem {
            ExportProblem::RunFailed => "failed",
            ExportProblem::Paused => "is paused",
            ExportProblem::Waits => "waits",
        };
        let subject = format!("Batch export {} {what}", mail.export);
        let to = Mailbox::new(None, recipient(to)?);
        build_message(from, to, None, &subject, body)
    }
}

/// Content of a mail as text and as HTML.
pub(super) struct MailBody {
    pub(super) plain: String,
    pub(super) html: String,
}

pub(super) fn build_message(
    from: &Mailbox,
    to: Mailbox,
    reply_to: Option<Mailbox>,
    subject: &str,
    body: MailBody,
) -> Result<Message, ComposeError> {
    let mut builder = Message::builder()
        .from(from.clone())
        .to(to)
        .subject(one_line(subject))
        .message_id(None)
        // Keeps robots from answering (RFC 3834).
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ));
    if let Some(reply_to) = reply_to {
        builder = builder.reply_to(reply_to);
    }
    let both = MultiPart::alternative_plain_html(body.plain, body.html);
    Ok(builder.multipart(both)?)
}

pub(super) fn recipient(email: &str) -> Result<Address, ComposeError> {
    email.parse().map_err(ComposeError::Recipient)
}

/// Name and address for a header; `None` if the address is invalid.
fn mailbox(name: &str, email: &str) -> Option<Mailbox> {
    let name = Some(one_line(name)).filter(|name| !name.is_empty() && name != email);
    Some(Mailbox::new(name, email.parse().ok()?))
}

/// Text of a header on one line: control characters and runs of white space become one space.
fn one_line(text: &str) -> String {
    let breaks = |c: char| c.is_whitespace() || c.is_control();
    let words = text.split(breaks).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from() -> Mailbox {
        "Millrace <millrace@example.com>".parse().unwrap()
    }

    fn invitation() -> Invitation {
        Invitation {
            to: "bob@example.org".to_owned(),
            first_name: "Bob".to_owned(),
            organization: "Acme".to_owned(),
            inviter: "Ann".to_owned(),
            inviter_email: "ann@example.com".to_owned(),
            message: None,
            link: "https://millrace.example/signup/t0ken".to_owned(),
            expires_at: "2026-01-04 09:30 UTC".to_owned(),
        }
    }

    /// Header block of a message, folded lines joined.
    fn headers(message: &Message) -> Vec<String> {
        let text = String::from_utf8(message.formatted()).unwrap();
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        head.replace("\r\n ", " ")
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn texts_of_users_add_neither_headers_nor_recipients() {
        let plain = headers(&invitation().compose(&from()).unwrap());
        for break_out in [
            "x\r\nBcc: eve@example.net",
            "x\nBcc: eve",
            "x\rBcc: eve",
            "\u{2028}Bcc: e",
            "\0",
        ] {
            let hostile = Invitation {
                first_name: break_out.to_owned(),
                organization: break_out.to_owned(),
                inviter: break_out.to_owned(),
                ..invitation()
            };
            let message = hostile.compose(&from()).unwrap();
            let names = |lines: &[String]| -> Vec<String> {
                lines
                    .iter()
                    .map(|line| line.split(':').next().unwrap().to_owned())
                    .collect()
            };
            assert_eq!(names(&headers(&message)), names(&plain), "{break_out:?}");
            assert_eq!(message.envelope().to().len(), 1, "{break_out:?}");
        }
    }

    #[test]
    fn addresses_with_line_breaks_are_invalid() {
        for to in ["a@b\r\nRCPT TO:<c@d>", "a@b\n", "a@b>,<c@d", "a b@c", ""] {
            assert!(!is_address(to), "{to:?}");
            let hostile = Invitation {
                to: to.to_owned(),
                ..invitation()
            };
            assert!(hostile.compose(&from()).is_err(), "{to:?}");
        }
        assert!(is_address("ann+tag@example.com"));
    }

    #[test]
    fn an_invalid_inviter_address_is_left_out_of_reply_to() {
        let odd = Invitation {
            inviter_email: "owner".to_owned(),
            ..invitation()
        };
        let lines = headers(&odd.compose(&from()).unwrap());
        assert!(
            !lines.iter().any(|line| line.starts_with("Reply-To")),
            "{lines:?}"
        );
    }

    #[test]
    fn html_escapes_texts_of_users() {
        let body = Invitation {
            organization: "<script>alert(1)</script>".to_owned(),
            message: Some("<b>hi</b>".to_owned()),
            ..invitation()
        };
        let html = InvitationHtml { mail: &body }.render().unwrap();
        assert!(
            !html.contains("<script>") && !html.contains("<b>hi"),
            "{html}"
        );
        let joined = MemberJoined {
            member: "<i>Bob</i>".to_owned(),
            email: "bob@example.org".to_owned(),
            organization: "Acme".to_owned(),
        };
        assert!(
            !MemberJoinedHtml { mail: &joined }
                .render()
                .unwrap()
                .contains("<i>")
        );
        assert!(
            MemberJoinedText { mail: &joined }
                .render()
                .unwrap()
                .contains("<i>Bob")
        );
    }
}
