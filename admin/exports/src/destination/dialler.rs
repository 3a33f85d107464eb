//! How destinations get connections. They open none themselves, so that none of them forgets to
//! look where it leads.

use crate::error::ExportError;
use async_trait::async_trait;
use millrace_dial::{DialError, Guard};
use tokio::net::TcpStream;

/// What opens connections, and only to where customers may lead us.
#[async_trait]
pub trait Dialler: Send + Sync {
    /// A connection to a server of this name or address.
    ///
    /// # Errors
    /// Nobody answers, or it leads to where it may not; one sentence for both, so that nobody
    /// learns from us what is in our network.
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ExportError>;

    /// A client that dials by the same rules and follows no redirects.
    ///
    /// # Errors
    /// It cannot be made, as no certificates can be read.
    fn http_client(&self) -> Result<reqwest::Client, ExportError>;
}

#[async_trait]
impl Dialler for Guard {
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ExportError> {
        let connected = Self::connect(self, host, port).await;
        connected.map_err(|error| ExportError::retry(sentence(error)))
    }

    fn http_client(&self) -> Result<reqwest::Client, ExportError> {
        Ok(Self::http_client(self))
    }
}

/// What happened, as a sentence.
fn sentence(error: DialError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    format!("{first}{}.", letters.as_str())
}
