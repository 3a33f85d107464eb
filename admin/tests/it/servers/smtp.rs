//! An SMTP server (aiosmtpd), plain or with STARTTLS.

use super::PythonServer;
use millrace_admin::mail::MailSettings;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::time::Duration;
use tempfile::TempDir;

/// Who sends.
pub const FROM: &str = "Millrace <millrace@example.com>";

/// A running server and how to reach it.
pub struct SmtpServer {
    pub server: PythonServer,
    /// Its own authority, with STARTTLS.
    authority: Option<String>,
    _files: TempDir,
}

impl SmtpServer {
    /// Takes what comes, unencrypted.
    pub async fn plain() -> Self {
        Self::start(&[], false).await
    }

    /// Takes nothing before STARTTLS.
    pub async fn starttls(arguments: &[&str]) -> Self {
        Self::start(arguments, true).await
    }

    /// With more arguments; `smtp.py` says which there are.
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

    /// Settings for it. `user` is `name:password@` or nothing, `query` what follows the port.
    pub fn settings(&self, user: &str, query: &str) -> MailSettings {
        self.settings_of("smtp", user, query)
    }

    /// The same with another scheme.
    pub fn settings_of(&self, scheme: &str, user: &str, query: &str) -> MailSettings {
        let url = format!("{scheme}://{user}127.0.0.1:{}{query}", self.server.port);
        let authority = self.authority.as_ref().map(String::as_bytes);
        MailSettings::new(&url, FROM, authority)
            .unwrap()
            .with_retry_pause(Duration::from_millis(1))
    }
}
