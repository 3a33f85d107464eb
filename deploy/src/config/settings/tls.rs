//! Settings of TLS on the listeners.

use clap::Args;
use std::path::PathBuf;

/// TLS of the listeners for events, of the organization API, and of health checks and metrics.
#[derive(Args, Clone, Debug)]
pub struct TlsSettings {
    /// PEM file of the certificate of the listeners; plain HTTP by default
    ///
    /// The certificates between it and the root follow it in the file. It needs `tls_key`. The
    /// listeners for events, of the organization API, and of health checks and metrics then take
    /// HTTPS only. The files are read again when they change, and no connection ends.
    #[arg(long, global = true, env = "MILLRACE_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the private key of `tls_cert`, without a password
    #[arg(long, global = true, env = "MILLRACE_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// PEM file of the authorities of client certificates; clients need none by default
    ///
    /// Clients for events and of the organization API then need a certificate of one of them;
    /// probes need none. Commands have none, so `tail`, `import` and the resending of rejected
    /// events do not reach the listeners.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_TLS_CLIENT_CA",
        value_name = "FILE"
    )]
    pub tls_client_ca: Option<PathBuf>,
}
