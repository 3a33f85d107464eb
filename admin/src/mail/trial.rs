//! Trial of the SMTP server: whether a session can be opened, without a mail.

use super::settings::MailSettings;
use super::smtp_session::{self, SessionError};
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// Longest time of a trial.
const TRIAL_MAX: Duration = Duration::from_secs(20);

/// Reason why mails cannot be delivered.
#[derive(Debug, Error)]
pub enum MailTrialError {
    /// The session failed; with the library's message.
    #[error("the SMTP server {0}: {1}")]
    Failed(String, String),
    /// The server took too long.
    #[error("the SMTP server {0} took more than {TRIAL_MAX:?}")]
    Slow(String),
}

impl MailSettings {
    /// Host and port of the SMTP server, for messages.
    #[must_use]
    pub fn server_address(&self) -> String {
        format!("{}:{}", self.server.host, self.server.port)
    }

    /// Opens a session with the SMTP server, logs in if the settings say so, and sends nothing.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or refuses.
    pub async fn try_server(&self) -> Result<(), MailTrialError> {
        let address = self.server_address();
        match timeout(TRIAL_MAX, smtp_session::try_login(&self.server)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(MailTrialError::Failed(address, reason(&error))),
            Err(_) => Err(MailTrialError::Slow(address)),
        }
    }
}

/// Message of an error with those of its sources, as the library's own is short.
fn reason(error: &SessionError) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words = format!("{words}: {inner_words}");
        }
        source = inner.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;

    /// Serves one session by fixed answers, one for each line of the client.
    async fn serve(listener: TcpListener, answers: &[&str]) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        for answer in answers {
            stream.write_all(answer.as_bytes()).await.unwrap();
            line.clear();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
        }
    }

    #[tokio::test]
    async fn a_server_that_takes_a_session_passes_and_another_is_named() {
        let table: [(&[&str], Option<&str>); 3] = [
            (&["220 ready\r\n", "250 hello\r\n", "221 bye\r\n"], None),
            (&["554 no\r\n", "221 bye\r\n"], Some("the SMTP server")),
            (&["what?\r\n"], Some("the SMTP server")),
        ];
        for (answers, refused) in table {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let url = format!("smtp://{address}");
            let settings = MailSettings::new(&url, "a@example.com", None).unwrap();
            let (tried, ()) = tokio::join!(settings.try_server(), serve(listener, answers));
            match (tried, refused) {
                (Ok(()), None) => {}
                (Err(error), Some(words)) => {
                    let told = error.to_string();
                    assert!(
                        told.contains(words) && told.contains(&address.to_string()),
                        "{told}"
                    );
                }
                (tried, _) => panic!("{answers:?}: {tried:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let settings = MailSettings::new(&format!("smtp://{address}"), "a@example.com", None);
        let error = settings.unwrap().try_server().await.unwrap_err();
        assert!(error.to_string().contains("no connection"), "{error}");
    }
}
