//! Detects servers that speak another protocol than the address names: a retry does not help.

use std::error::Error;
use std::io;
use tokio_rustls::rustls::Error as TlsError;

/// Advice if the server speaks another protocol than the address names; `None` if a retry may help.
pub(super) fn advice(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(link) = cause {
        let found = match link.downcast_ref::<TlsError>() {
            Some(error) => on_tls(error),
            None => link.downcast_ref().and_then(on_http),
        };
        if found.is_some() {
            return found;
        }
        // `io::Error` wraps an error without naming it as its source.
        let wrapper = link.downcast_ref::<io::Error>();
        cause = match wrapper.and_then(io::Error::get_ref) {
            Some(inside) => Some(inside),
            None => link.source(),
        };
    }
    None
}

fn on_tls(error: &TlsError) -> Option<String> {
    match error {
        TlsError::InvalidMessage(_) => Some(
            "does not speak TLS; begin --url with http://, or name the port for TLS".to_owned(),
        ),
        TlsError::InvalidCertificate(reason) => Some(format!(
            "shows a certificate that is not trusted ({reason}); name the server in --url as its certificate does, and \
             the file of its authority in SSL_CERT_FILE if that is one of your own"
        )),
        _ => None,
    }
}

fn on_http(error: &hyper::Error) -> Option<String> {
    let advice = "does not speak HTTP; begin --url with https:// if it speaks TLS";
    error.is_parse().then(|| advice.to_owned())
}
