//! SMTP server (aiosmtpd), plain or with STARTTLS.

use super::PythonServer;
use millrace_admin::mail::MailSettings;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::time::Duration;
use tempfile::TempDir;

/// Sender of the mails.
pub const FROM: &str = "Millrace <millrace@example.com>";

/// A running server with its certificate.
pub struct SmtpServer {
    pub server: PythonServer,
    /// Certificate of the server, with STARTTLS.
    authority: Option<String>,
    _files: TempDir,
}

impl SmtpServer {
    /// Starts a server that accepts unencrypted mails.
    pub async fn plain() -> Self {
        Self::start(&[], false).await
    }

    /// Starts a server that requires STARTTLS.
    pub async fn starttls(arguments: &[&str]) -> Self {
        Self::start(arguments, true).await
    }

    /// Starts a server with arguments; `smtp.py` lists them.
    pub async fn start(arguments: &[&str], encrypted: bool) -> Self {
        let files = TempDir::new().unwrap();
        let (certificate, key) = (files.path().join("certificate"), files.path().join("key"));
        let mut all = arguments.to_vec();
        let mut authority = None;
        if encrypted {
            let CertifiedKey { cert, signing_key } =
                generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
            std::fs::write(&certificate, cert.pem()).unwrap();
            std::fs::write(&key, signing_key.serialize_pem()).unwrap();
            authority = Some(cert.pem());
            all.extend([
                "--tls",
                certificate.to_str().unwrap(),
                key.to_str().unwrap(),
            ]);
        }
        Self {
            server: PythonServer::start("smtp.py", &all).await,
            authority,
            _files: files,
        }
    }

    /// Settings for this server. `user` is `name:password@` or empty, `query` follows the port.
    pub fn settings(&self, user: &str, query: &str) -> MailSettings {
        self.settings_of("smtp", user, query)
    }

    /// Settings for this server with another scheme.
    pub fn settings_of(&self, scheme: &str, user: &str, query: &str) -> MailSettings {
        let url = format!("{scheme}://{user}127.0.0.1:{}{query}", self.server.port);
        let authority = self.authority.as_ref().map(String::as_bytes);
        MailSettings::new(&url, FROM, authority)
            .unwrap()
            .with_retry_pause(Duration::from_millis(1))
    }
}
