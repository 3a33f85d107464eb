//! Origin of a request: the client's address, and the API's address as the client reaches it.
//!
//! `X-Forwarded-*` counts only if the peer is a trusted proxy: anyone can send it.

use crate::services::ApiConfig;
use http::HeaderMap;
use http::header::HOST;
use http::uri::Authority;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Other end of the connection, an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// True if the connection has TLS.
    pub(crate) is_tls: bool,
}

/// Origin of a request, by its connection and headers.
pub(crate) struct Origin {
    /// Address of the client: the peer, or behind trusted proxies the last forwarded address that
    /// is not one of theirs.
    pub(crate) address: IpAddr,
    /// Address of the API as the client reaches it, without a slash at the end.
    pub(crate) base_url: String,
}

impl Origin {
    pub(crate) fn of(config: &ApiConfig, peer: Option<Peer>, headers: &HeaderMap) -> Self {
        let is_tls = peer.is_some_and(|peer| peer.is_tls);
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.address.ip());
        let peer = peer.to_canonical();
        let proxied = is_trusted(&config.trusted_proxies, peer);
        let address = if proxied {
            forwarded_for(&config.trusted_proxies, headers).unwrap_or(peer)
        } else {
            peer
        };
        let base_url = match &config.public_url {
            Some(url) => url.clone(),
            None => as_requested(headers, proxied, is_tls),
        };
        Self { address, base_url }
    }
}

/// Returns true if the address is of one of these proxies.
pub(crate) fn is_trusted(proxies: &[IpNet], address: IpAddr) -> bool {
    proxies.iter().any(|network| network.contains(&address))
}

/// Client's address in `X-Forwarded-For`, read from the right, as each proxy appends its peer.
fn forwarded_for(proxies: &[IpNet], headers: &HeaderMap) -> Option<IpAddr> {
    let mut heard = Vec::new();
    for value in headers.get_all("x-forwarded-for") {
        let addresses = value.to_str().ok()?.split(',');
        heard.extend(addresses.map(|address| address.trim().parse::<IpAddr>().ok()));
    }
    let mut client = None;
    for address in heard.into_iter().rev() {
        // A text that is no address was not written by a trusted proxy.
        let Some(address) = address else { break };
        client = Some(address.to_canonical());
        if !is_trusted(proxies, address.to_canonical()) {
            break;
        }
    }
    client
}

fn as_requested(headers: &HeaderMap, proxied: bool, is_tls: bool) -> String {
    let first = |name: &str| {
        let value = headers.get(name).filter(|_| proxied)?.to_str().ok()?;
        value.split(',').next().map(str::trim)
    };
    let scheme = match first("x-forwarded-proto") {
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
        None if is_tls => "https",
        Some(_) | None => "http",
    };
    let host = first("x-forwarded-host")
        .and_then(authority)
        .or_else(|| authority(headers.get(HOST)?.to_str().ok()?));
    match host {
        Some(host) => format!("{scheme}://{host}"),
        None => format!("{scheme}://localhost"),
    }
}

/// Parses a host with an optional port; refuses user names, which would change the URL's host.
fn authority(text: &str) -> Option<Authority> {
    let parsed: Authority = text.parse().ok()?;
    (!text.contains('@')).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sent<'a> = &'a [(&'a str, &'a str)];
    type Case<'a> = (&'a str, bool, Sent<'a>, &'a str, &'a str);

    #[test]
    fn forwarding_headers_count_from_trusted_proxies_only() {
        let config = ApiConfig {
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
            ..ApiConfig::default()
        };
        let forwarded = [
            ("host", "inner:8010"),
            ("x-forwarded-for", "192.0.2.66, 192.0.2.7, 10.0.0.2"),
            ("x-forwarded-host", "api.example"),
            ("x-forwarded-proto", "https"),
        ];
        let odd = [
            ("host", "a@b/c"),
            ("x-forwarded-for", "192.0.2.7, x, 10.0.0.2"),
        ];
        let table: [Case<'_>; 7] = [
            (
                "192.0.2.1",
                false,
                &forwarded,
                "192.0.2.1",
                "http://inner:8010",
            ),
            (
                "192.0.2.1",
                true,
                &forwarded,
                "192.0.2.1",
                "https://inner:8010",
            ),
            (
                "10.0.0.1",
                false,
                &forwarded,
                "192.0.2.7",
                "https://api.example",
            ),
            (
                "::ffff:10.0.0.1",
                false,
                &forwarded,
                "192.0.2.7",
                "https://api.example",
            ),
            ("10.0.0.1", false, &[], "10.0.0.1", "http://localhost"),
            ("10.0.0.1", true, &[], "10.0.0.1", "https://localhost"),
            ("10.0.0.1", false, &odd, "10.0.0.2", "http://localhost"),
        ];
        for (peer, is_tls, sent, address, base_url) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                let name: http::HeaderName = name.parse().unwrap();
                headers.append(name, value.parse().unwrap());
            }
            let peer = Peer {
                address: SocketAddr::new(peer.parse().unwrap(), 4711),
                is_tls,
            };
            let origin = Origin::of(&config, Some(peer), &headers);
            assert_eq!(origin.address, address.parse::<IpAddr>().unwrap());
            assert_eq!(origin.base_url, base_url);
        }
    }

    #[test]
    fn the_configured_public_url_overrides_the_requests_host() {
        let config = ApiConfig {
            public_url: Some("https://millrace.example/admin".to_owned()),
            ..ApiConfig::default()
        };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "inner".parse().unwrap());
        let origin = Origin::of(&config, None, &headers);
        assert_eq!(origin.base_url, "https://millrace.example/admin");
    }
}
