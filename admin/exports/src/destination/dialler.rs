//! Connections of destinations. Destinations open none themselves, so that none can forget to check
//! the address.

use crate::error::ExportError;
use async_trait::async_trait;
use millrace_dial::{DialError, Guard};
use tokio::net::TcpStream;

/// Opens connections, and only to addresses that customers may name.
#[async_trait]
pub trait Dialler: Send + Sync {
    /// Connects to a server of this name or address.
    ///
    /// # Errors
    /// The server does not answer, or its address may not be dialled. Both have the same sentence,
    /// so that customers cannot find out what is in our network.
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ExportError>;

    /// Creates an HTTP client that dials by the same rules and follows no redirects.
    ///
    /// # Errors
    /// No certificates can be read.
    fn http_client(&self) -> Result<reqwest::Client, ExportError>;
}

#[async_trait]
impl Dialler for Guard {
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ExportError> {
        let connected = Self::connect(self, host, port).await;
        connected.map_err(|error| ExportError::retryable(sentence(error)))
    }

    fn http_client(&self) -> Result<reqwest::Client, ExportError> {
        Ok(Self::http_client(self))
    }
}

/// Formats an error as a sentence.
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
