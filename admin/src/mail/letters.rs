//! What the mails say.

use askama::Template;
use lettre::Address;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message, MultiPart};
use millrace_catalog::text;
use thiserror::Error;

/// Why no letter could be made of a text.
#[derive(Debug, Error)]
pub enum LetterError {
    /// The recipient's address.
    #[error("the recipient's address is none: {0}")]
    Recipient(lettre::address::AddressError),
    /// A template; they take every text, so this is a bug.
    #[error("a template failed: {0}")]
    Template(#[from] askama::Error),
    /// What the mail library refuses.
    #[error("the mail cannot be put together: {0}")]
    Message(#[from] lettre::error::Error),
}

/// Whether mail can be sent to it.
pub fn is_address(text: &str) -> bool {
    text.parse::<Address>().is_ok()
}

/// An invitation to an organization.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// Whom it goes to.
    pub to: String,
    /// How to greet; may be empty.
    pub first_name: String,
    /// The name of the organization.
    pub organization: String,
    /// Who invites; the address when there is no name.
    pub inviter: String,
    /// Where answers go.
    pub inviter_email: String,
    /// What the inviter adds.
    pub message: Option<String>,
    /// The page that accepts; whoever has it is taken for the recipient.
    pub link: String,
    /// Until when, for people.
    pub expires_at: String,
}

impl Invitation {
    /// Puts it together.
    ///
    /// # Errors
    ///
    /// The recipient's address is none.
    pub fn letter(&self, from: &Mailbox) -> Result<Message, LetterError> {
        let mail = &self.shown();
        let texts = Texts {
            plain: InvitationText { mail }.render()?,
            html: InvitationHtml { mail }.render()?,
        };
        let subject = format!("{} invited you to {}", mail.inviter, mail.organization);
        let name = Some(one_line(&mail.first_name)).filter(|name| !name.is_empty());
        let to = Mailbox::new(name, recipient(&mail.to)?);
        let reply_to = mailbox(&mail.inviter, &mail.inviter_email);
        put_together(from, to, reply_to, &subject, texts)
    }
}

impl Invitation {
    /// The same without control characters, which may be in names of before they were refused.
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

/// A text that goes to many, each alone.
pub trait NoticeText: Send + Sync + 'static {
    /// What it is, for the log.
    const KIND: &'static str;

    /// Puts it together for one recipient.
    ///
    /// # Errors
    ///
    /// The recipient's address is none.
    fn letter(&self, from: &Mailbox, to: &str) -> Result<Message, LetterError>;
}

/// Tells a member that there is another.
#[derive(Clone, Debug)]
pub struct MemberJoined {
    /// Who joined; the address when there is no name.
    pub member: String,
    /// The new member's address.
    pub email: String,
    /// The name of the organization.
    pub organization: String,
}

impl NoticeText for MemberJoined {
    const KIND: &'static str = "member joined";

    fn letter(&self, from: &Mailbox, to: &str) -> Result<Message, LetterError> {
        let mail = &Self {
            member: shown(&self.member),
            email: shown(&self.email),
            organization: shown(&self.organization),
        };
        let texts = Texts {
            plain: MemberJoinedText { mail }.render()?,
            html: MemberJoinedHtml { mail }.render()?,
        };
        let subject = format!("{} joined {}", mail.member, mail.organization);
        let to = Mailbox::new(None, recipient(to)?);
        put_together(from, to, None, &subject, texts)
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

/// State of an export that somebody should look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// One run was given up; others follow.
    RunFailed,
    /// It does not run any more.
    Paused,
    /// Its runs have waited for the server's operator for an hour.
    Waits,
}

/// Tells an administrator of an export that somebody should look after.
#[derive(Clone, Debug)]
pub struct ExportTrouble {
    /// What people call the export.
    pub export: String,
    /// The name of the organization.
    pub organization: String,
    /// How it is.
    pub trouble: Trouble,
    /// What went wrong.
    pub why: String,
    /// Where it is found, below the API's address.
    pub path: String,
}

#[derive(Template)]
#[template(path = "export_trouble.txt")]
struct ExportTroubleText<'a> {
    mail: &'a ExportTrouble,
}

#[derive(Template)]
#[template(path = "export_trouble.html")]
struct ExportTroubleHtml<'a> {
    mail: &'a ExportTrouble,
}

impl NoticeText for ExportTrouble {
    const KIND: &'static str = "export trouble";

    fn letter(&self, from: &Mailbox, to: &str) -> Result<Message, LetterError> {
        let mail = &Self {
            export: shown(&self.export),
            organization: shown(&self.organization),
            why: shown(&self.why),
            ..self.clone()
        };
        let texts = Texts {
            plain: ExportTroubleText { mail }.render()?,
            html: ExportTroubleHtml { mail }.render()?,
        };
        let what = match self.trouble {
            Trouble::RunFailed => "failed",
            Trouble::Paused => "is paused",
            Trouble::Waits => "waits",
        };
        let subject = format!("Batch export {} {what}", mail.export);
        let to = Mailbox::new(None, recipient(to)?);
        put_together(from, to, None, &subject, texts)
    }
}

/// The same content twice.
struct Texts {
    plain: String,
    html: String,
}

fn put_together(
    from: &Mailbox,
    to: Mailbox,
    reply_to: Option<Mailbox>,
    subject: &str,
    texts: Texts,
) -> Result<Message, LetterError> {
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
    let both = MultiPart::alternative_plain_html(texts.plain, texts.html);
    Ok(builder.multipart(both)?)
}

fn recipient(email: &str) -> Result<Address, LetterError> {
    email.parse().map_err(LetterError::Recipient)
}

/// A name and address for a header; `None` if the address is none.
fn mailbox(name: &str, email: &str) -> Option<Mailbox> {
    let name = Some(one_line(name)).filter(|name| !name.is_empty() && name != email);
    Some(Mailbox::new(name, email.parse().ok()?))
}

/// A header's text is one line, whatever is in it: control characters and runs of white space become one space.
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

    /// The header block, folded lines joined.
    fn headers(letter: &Message) -> Vec<String> {
        let text = String::from_utf8(letter.formatted()).unwrap();
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        head.replace("\r\n ", " ")
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn texts_of_users_add_neither_headers_nor_recipients() {
        let plain = headers(&invitation().letter(&from()).unwrap());
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
            let letter = hostile.letter(&from()).unwrap();
            let names = |lines: &[String]| -> Vec<String> {
                lines
                    .iter()
                    .map(|line| line.split(':').next().unwrap().to_owned())
                    .collect()
            };
            assert_eq!(names(&headers(&letter)), names(&plain), "{break_out:?}");
            assert_eq!(letter.envelope().to().len(), 1, "{break_out:?}");
        }
    }

    #[test]
    fn addresses_with_line_breaks_are_none() {
        for to in ["a@b\r\nRCPT TO:<c@d>", "a@b\n", "a@b>,<c@d", "a b@c", ""] {
            assert!(!is_address(to), "{to:?}");
            let hostile = Invitation {
                to: to.to_owned(),
                ..invitation()
            };
            assert!(hostile.letter(&from()).is_err(), "{to:?}");
        }
        assert!(is_address("ann+tag@example.com"));
    }

    #[test]
    fn an_inviter_whose_address_is_none_gets_no_answers() {
        let odd = Invitation {
            inviter_email: "owner".to_owned(),
            ..invitation()
        };
        let lines = headers(&odd.letter(&from()).unwrap());
        assert!(
            !lines.iter().any(|line| line.starts_with("Reply-To")),
            "{lines:?}"
        );
    }

    #[test]
    fn html_shows_texts_and_runs_none() {
        let texts = Invitation {
            organization: "<script>alert(1)</script>".to_owned(),
            message: Some("<b>hi</b>".to_owned()),
            ..invitation()
        };
        let html = InvitationHtml { mail: &texts }.render().unwrap();
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
