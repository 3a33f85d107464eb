//! TLS of the program's own listeners.
//!
//! All listeners of a process share one certificate, its key, and an authority of client
//! certificates where there is one. These are files, which are read again when they change: the
//! next handshake has the new certificate, and no connection ends. Files that cannot be used change
//! nothing.
//!
//! | Module | Does |
//! |---|---|
//! | `files` | reads certificate, key and authority, and notices that they changed |
//! | `settings` | settings of handshakes: versions, client certificates, tickets, protocol |
//! | `server_tls` | certificate that is in use, and its reload |
//! | `handshake` | handshake of a connection, within a time and in turn |
//! | `pending` | handshakes that are under way; the oldest gives way to a new one |
//! | `own_client` | clients of the same machine, which know the file of the certificate |
//! | `metrics` | metrics of all of these |
//!
//! Promises: a handshake ends within its time; a listener has a bounded number of them at once;
//! between two of them, all other tasks of the core have their turn. TLS is 1.2 or 1.3, by ring.
//! There is no early data, as it could be replayed.

#![forbid(unsafe_code)]

mod error;
mod files;
mod handshake;
mod metrics;
mod own_client;
mod pending;
mod server_tls;
mod settings;
#[cfg(feature = "testing")]
pub mod testing;

pub use error::TlsError;
pub use files::TlsFiles;
pub use handshake::{HandshakeError, HandshakeLimits, Handshaker, TlsStream};
pub use own_client::own_client;
pub use server_tls::{Reload, ServerTls};
pub use settings::ClientCertificates;
