//! Reasons why the files of TLS cannot be used.

use std::io;
use std::path::PathBuf;
use thiserror::Error;
use tokio_rustls::rustls;
use tokio_rustls::rustls::server::VerifierBuilderError;

/// Reason why certificate, key and authority cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{setting} is {}, which cannot be read: {source}", path.display())]
    Read {
        /// Setting that names the file.
        setting: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file does not have in it what it is for.
    #[error("{setting} is {}, which has no {content} in PEM: {reason}", path.display())]
    Content {
        /// Setting that names the file.
        setting: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Content that it should have.
        content: &'static str,
        /// What was found instead.
        reason: String,
    },
    /// Certificate and key cannot be used together.
    #[error("tls_cert and tls_key cannot be used together: {0}")]
    Certificate(rustls::Error),
    /// No client certificate can be checked.
    #[error("tls_client_ca cannot be used: {0}")]
    Authority(VerifierBuilderError),
    /// The system gives no random bytes, or the library lacks a version of TLS.
    #[error("TLS cannot be set up: {0}")]
    Library(rustls::Error),
}
