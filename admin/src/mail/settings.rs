//! Settings of the SMTP server and the sender.
//!
//! | URL | Means |
//! |---|---|
//! | `smtp://host` | no encryption, port 25 |
//! | `smtp://host?tls=required` | STARTTLS or nothing, port 587 |
//! | `smtp://host?tls=opportunistic` | STARTTLS if the server offers it, port 587 |
//! | `smtps://host` | TLS from the first byte, port 465 |
//!
//! `user:password@` (percent-encoded) and `:port` go where URLs have them; a path is the name for
//! `EHLO`. Certificates are checked against the system's authorities.

use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{Error as SmtpError, SMTP_PORT, SUBMISSION_PORT, SUBMISSIONS_PORT};
use percent_encoding::percent_decode_str;
use std::fmt;
use std::time::Duration;
use thiserror::Error;
use url::Url;

/// Error in the settings. The URL is in no message, as it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MailSettingsError {
    /// The server's URL is invalid.
    #[error(
        "smtp_url {0}; give smtp://host, smtp://user:password@host?tls=required or smtps://host"
    )]
    Url(String),
    /// The sender is invalid.
    #[error("mail_from is {0:?}; give an address, such as Millrace <millrace@example.com>")]
    From(String),
    /// The authority's certificate cannot be used.
    #[error("the authority's certificate cannot be used: {0}")]
    Authority(String),
}

/// Validated settings of the SMTP server and the sender.
#[derive(Clone)]
pub struct MailSettings {
    pub(super) server: Server,
    pub(super) from: Mailbox,
    /// Wait before the second try; each further wait is four times as long.
    pub(super) retry_pause: Duration,
}

impl MailSettings {
    /// Validates the settings. `authority` is a certificate (PEM) to trust beside the system's.
    ///
    /// # Errors
    ///
    /// A setting is invalid; the message names it and says what to do.
    pub fn new(
        smtp_url: &str,
        from: &str,
        authority: Option<&[u8]>,
    ) -> Result<Self, MailSettingsError> {
        let from = from
            .parse()
            .map_err(|_| MailSettingsError::From(from.to_owned()))?;
        let server = server(smtp_url, authority)?;
        Ok(Self {
            server,
            from,
            retry_pause: Duration::from_secs(2),
        })
    }

    /// Changes the wait before the second try.
    #[must_use]
    pub fn with_retry_pause(mut self, pause: Duration) -> Self {
        self.retry_pause = pause;
        self
    }
}

/// Leaves the server out, as its password must not be logged.
impl fmt::Debug for MailSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MailSettings");
        shown.field("from", &self.from).finish_non_exhaustive()
    }
}

/// SMTP server, with its TLS mode, credentials and name for `EHLO`.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Tls,
    pub(super) greets_as: ClientId,
    pub(super) credentials: Option<Credentials>,
}

fn server(smtp_url: &str, authority: Option<&[u8]>) -> Result<Server, MailSettingsError> {
    let bad = |why: &str| MailSettingsError::Url(why.to_owned());
    let url = Url::parse(smtp_url).map_err(|error| bad(&format!("is not a URL ({error})")))?;
    let host = url.host_str().ok_or_else(|| bad("has no host"))?;
    let mode = url.query_pairs().find(|(name, _)| name == "tls");
    let mode = mode.as_ref().map(|(_, mode)| &**mode);
    let encryption = || encryption(host, authority);
    let (port, tls) = match (url.scheme(), mode) {
        ("smtp", None) => (SMTP_PORT, Tls::None),
        ("smtp", Some("required")) => (SUBMISSION_PORT, Tls::Required(encryption()?)),
        ("smtp", Some("opportunistic")) => (SUBMISSION_PORT, Tls::Opportunistic(encryption()?)),
        ("smtps", _) => (SUBMISSIONS_PORT, Tls::Wrapper(encryption()?)),
        _ => return Err(bad("has a scheme or a parameter that we do not know")),
    };
    let name = url.path().trim_matches('/');
    let greets_as = match name {
        "" => ClientId::default(),
        name => ClientId::Domain(name.to_owned()),
    };
    Ok(Server {
        host: host.to_owned(),
        port: url.port().unwrap_or(port),
        tls,
        greets_as,
        credentials: credentials(&url)?,
    })
}

/// User and password of a URL; `None` without a password.
fn credentials(url: &Url) -> Result<Option<Credentials>, MailSettingsError> {
    let Some(password) = url.password() else {
        return Ok(None);
    };
    let decoded = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        let why = "has a user or a password that is not UTF-8";
        decoded
            .map(String::from)
            .map_err(|_| MailSettingsError::Url(why.to_owned()))
    };
    let (user, password) = (decoded(url.username())?, decoded(password)?);
    Ok(Some(Credentials::new(user, password)))
}

/// TLS parameters for a server whose certificate must be for `host`.
fn encryption(host: &str, authority: Option<&[u8]>) -> Result<TlsParameters, MailSettingsError> {
    let unusable = |error: SmtpError| MailSettingsError::Authority(error.to_string());
    let mut encryption = TlsParameters::builder(host.to_owned());
    if let Some(authority) = authority {
        let authority = Certificate::from_pem(authority).map_err(unusable)?;
        encryption = encryption.add_root_certificate(authority);
    }
    encryption.build().map_err(unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(url: &str, from: &str) -> Result<(), MailSettingsError> {
        MailSettings::new(url, from, None).map(drop)
    }

    #[test]
    fn invalid_urls_and_senders_are_refused() {
        let from = "Millrace <millrace@example.com>";
        for url in [
            "smtp://localhost",
            "smtp://localhost:2525",
            "smtp://mail.example.com?tls=required",
            "smtp://mail.example.com?tls=opportunistic",
            "smtps://ann%40example.com:p%20w@mail.example.com:4650/greeting.example.com",
            "smtp://[::1]:25",
        ] {
            assert_eq!(outcome(url, from), Ok(()), "{url}");
        }
        for url in [
            "",
            "localhost:25",
            "http://localhost",
            "smtp://",
            "smtp://h?tls=maybe",
        ] {
            let refused = outcome(url, from);
            assert!(
                matches!(refused, Err(MailSettingsError::Url(_))),
                "{url}: {refused:?}"
            );
        }
        for from in ["", "millrace", "a@b\r\nBcc: c@d", "a@b, c@d"] {
            let refused = outcome("smtp://localhost", from);
            assert!(
                matches!(refused, Err(MailSettingsError::From(_))),
                "{from:?}"
            );
        }
    }

    #[test]
    fn the_password_is_in_no_debug_output_and_no_error() {
        let settings = MailSettings::new("smtp://u:canary@h", "a@example.com", None).unwrap();
        assert!(!format!("{settings:?}").contains("canary"));
        let refused = outcome("smtp://u:canary@h?tls=maybe", "a@example.com").unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("canary"));
    }
}
