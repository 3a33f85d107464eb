//! Addresses to listen on: an IP address or the name of a host, and a port. A name is looked up
//! once, when the configuration is built.

use anyhow::{Context, bail};
use std::net::{SocketAddr, ToSocketAddrs};

/// Longest name of a host, in bytes (RFC 1035).
const NAME_BYTES_MAX: usize = 253;

/// Address to listen on, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// IP address and port.
    Ip(SocketAddr),
    /// Name of a host, and port.
    Name(String, u16),
}

impl ListenAddress {
    /// Looks the name up. Of several addresses the first of IPv4 is taken, as clients that know no
    /// other are the most.
    ///
    /// # Errors
    /// When the name has no address; the message names the setting.
    pub fn resolved(&self, setting: &str) -> anyhow::Result<SocketAddr> {
        let (name, port) = match self {
            Self::Ip(address) => return Ok(*address),
            Self::Name(name, port) => (name.as_str(), *port),
        };
        let advice = || {
            format!(
                "{setting} is {name}:{port}, and {name} has no address here; give an address of this machine, such as \
                 127.0.0.1:{port}, or correct the name in /etc/hosts or the DNS"
            )
        };
        let found = (name, port).to_socket_addrs().with_context(advice)?;
        let found: Vec<SocketAddr> = found.collect();
        let of_ipv4 = found.iter().find(|address| address.is_ipv4());
        match of_ipv4.or(found.first()) {
            Some(address) => Ok(*address),
            None => bail!(advice()),
        }
    }
}

/// Parses an address to listen on.
pub(super) fn listen_address(text: &str) -> Result<ListenAddress, String> {
    if let Ok(address) = text.parse() {
        return Ok(ListenAddress::Ip(address));
    }
    let (name, port) = text.rsplit_once(':').unwrap_or(("", text));
    match port.parse() {
        Ok(port) if is_name(name) => Ok(ListenAddress::Name(name.to_owned(), port)),
        port => {
            let port = port.unwrap_or(8000_u16);
            Err(format!(
                "give an address with a port, such as 127.0.0.1:{port} for this machine only, \
                 0.0.0.0:{port} for all that reach it, or the name of a host with a port"
            ))
        }
    }
}

/// Returns true for what can be the name of a host. One whose last label is a number would be a
/// slip in an IP address.
fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label =
        |label: &str| !label.is_empty() && !label.starts_with('-') && label.bytes().all(is_of_name);
    let text = text.strip_suffix('.').unwrap_or(text);
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label) && !is_number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listen_address_is_an_ip_address_or_a_name_with_a_port() {
        let ip = |text: &str| Some(ListenAddress::Ip(text.parse().unwrap()));
        let name = |name: &str, port| Some(ListenAddress::Name(name.to_owned(), port));
        let table = [
            ("127.0.0.1:8000", ip("127.0.0.1:8000")),
            ("0.0.0.0:0", ip("0.0.0.0:0")),
            ("[::1]:8000", ip("[::1]:8000")),
            ("localhost:9000", name("localhost", 9000)),
            ("node-1.example.com.:80", name("node-1.example.com.", 80)),
            ("ch_1:80", name("ch_1", 80)),
            ("9000", None),
            (":9000", None),
            ("localhost", None),
            ("localhost:", None),
            ("localhost:65536", None),
            ("127.0.0.256:8000", None),
            ("127.0.0.1.2:8000", None),
            ("::1:8000", None),
            ("-a:8000", None),
            ("a..b:8000", None),
            ("a b:8000", None),
            ("http://localhost:8000", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(listen_address(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn an_address_that_is_refused_is_corrected_with_its_port() {
        let table = [
            ("9000", "127.0.0.1:9000"),
            (":9000", "0.0.0.0:9000"),
            ("here", "127.0.0.1:8000"),
            ("127.0.0.256:7", "such as 127.0.0.1:7"),
        ];
        for (text, expected) in table {
            let told = listen_address(text).unwrap_err();
            assert!(told.contains(expected), "{text}: {told}");
        }
    }

    #[test]
    fn a_name_is_looked_up() {
        let localhost = listen_address("localhost:9000").unwrap();
        let found = localhost.resolved("ingest_addr").unwrap();
        assert!(found.ip().is_loopback() && found.port() == 9000, "{found}");
    }
}
