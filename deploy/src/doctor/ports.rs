//! Addresses to listen on: free, or those of the server that runs on the data folder.

use super::Finding;
use crate::config::Config;
use crate::credentials::Credentials;
use crate::preflight;
use crate::serve::Parts;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const PORT: &str = "port";
/// Longest wait for the health check of a running server.
const HEALTH_MAX: Duration = Duration::from_secs(2);
/// Beginning of an answer with status 200.
const LIVE: &[u8; 12] = b"HTTP/1.1 200";
/// Beginning of the answer of a listener with TLS to a request without: the server lives.
const HTTPS_REQUIRED: &[u8; 12] = b"HTTP/1.1 400";

/// Checks each address that the parts listen on.
pub(super) fn check(config: &Config, parts: Parts) -> Vec<Finding> {
    let is_running = is_running(config);
    let addresses = preflight::addresses(config, parts).into_iter();
    // Any free port will do for port 0.
    let addresses = addresses.filter(|(address, _)| address.port() != 0);
    addresses
        .map(|(address, flag)| finding(address, flag, is_running))
        .collect()
}

fn finding(address: SocketAddr, flag: &str, is_running: bool) -> Finding {
    let Err(error) = TcpListener::bind(address) else {
        return Finding::ok(PORT, format!("{address} ({flag}) is free"));
    };
    if is_running && error.kind() == ErrorKind::AddrInUse {
        let found = format!("{address} ({flag}) is taken, as the server of the data folder runs");
        return Finding::ok(PORT, found);
    }
    let advice = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "`ss -ltnp 'sport = :{}'` shows who listens; stop that, or give another address with {flag}",
            address.port()
        ),
        ErrorKind::AddrNotAvailable => {
            format!(
                "give an address of this machine with {flag}, such as 0.0.0.0:{}",
                address.port()
            )
        }
        ErrorKind::PermissionDenied => format!(
            "give a port from 1024 on with {flag}, or the program the capability CAP_NET_BIND_SERVICE"
        ),
        _ => format!("give another address with {flag}"),
    };
    Finding::error(
        PORT,
        format!("{address} ({flag}) cannot be listened on: {error}"),
        advice,
    )
}

/// Returns true if the server that wrote the credentials of the data folder answers.
fn is_running(config: &Config) -> bool {
    let credentials = Credentials::load(&config.credentials_path());
    let url = credentials.ok().flatten().map(|known| known.health_url);
    let parts = url.as_deref().and_then(|url| url.split_once("://"));
    let Some((scheme, address)) = parts else {
        return false;
    };
    let expected = match scheme {
        "https" => HTTPS_REQUIRED,
        _ => LIVE,
    };
    let address = address.parse().ok();
    address.is_some_and(|address| answers(address, expected).unwrap_or(false))
}

/// Returns true if an answer to a health check begins as expected.
fn answers(address: SocketAddr, expected: &[u8; 12]) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&address, HEALTH_MAX)?;
    stream.set_read_timeout(Some(HEALTH_MAX))?;
    stream.set_write_timeout(Some(HEALTH_MAX))?;
    let request =
        format!("GET /_health/live HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(head == *expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn a_port_is_free_taken_by_the_server_or_an_error() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = taken.local_addr().unwrap();
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 8_000));
        let table = [
            (free, false, Status::Ok),
            (taken, true, Status::Ok),
            (taken, false, Status::Error),
            (elsewhere, true, Status::Error),
        ];
        for (address, is_running, status) in table {
            let finding = finding(address, "--ingest-addr", is_running);
            assert_eq!(finding.status, status, "{finding:?}");
            assert!(finding.found.contains("--ingest-addr"), "{finding:?}");
        }
    }
}
