//! Checks of addresses in the settings: proxies, nameserver, plugin catalogue, public URLs.

use anyhow::bail;
use ipnet::IpNet;
use millrace_admin::domain_name;
use millrace_admin::plugin_catalogue::CatalogueSource;
use std::net::{IpAddr, SocketAddr};

/// Default port of nameservers.
const DNS_PORT: u16 = 53;

/// Checks a public URL; removes the slash at its end.
pub(super) fn web_address(setting: &str, url: Option<String>) -> anyhow::Result<Option<String>> {
    let Some(url) = url else { return Ok(None) };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        bail!("{setting} is {url:?}; give one such as https://millrace.example");
    }
    Ok(Some(url.trim_end_matches('/').to_owned()))
}

/// Parses the address of a nameserver, with or without a port.
pub(super) fn nameserver(text: Option<&str>) -> anyhow::Result<Option<SocketAddr>> {
    let Some(text) = text else { return Ok(None) };
    let port_left_out = || text.parse().map(|ip: IpAddr| (ip, DNS_PORT).into());
    let Ok(address) = text.parse().or_else(|_| port_left_out()) else {
        bail!("dns_nameserver is {text:?}; give one such as 192.0.2.53 or [2001:db8::53]:5353");
    };
    Ok(Some(address))
}

/// Parses the place of the plugin catalogue: a folder or a URL; the built-in one by default.
pub(super) fn plugin_catalogue(text: Option<&str>) -> anyhow::Result<CatalogueSource> {
    let Some(text) = text else {
        return Ok(CatalogueSource::BuiltIn);
    };
    let Ok(source) = CatalogueSource::parse(text) else {
        bail!(
            "plugin_catalogue is {text:?}; give a folder or a URL that has plugins.json, such as \
             https://plugins.example.com"
        );
    };
    Ok(source)
}

/// Normalises the base domain of proxies. `localhost` may be its top-level domain.
pub(super) fn proxy_base_name(text: &str) -> anyhow::Result<String> {
    let Some(name) = domain_name::normalized(text) else {
        bail!("proxy_base_name is {text:?}; give a domain such as proxy.millrace.example");
    };
    Ok(name)
}

/// Parses the networks of a setting; a single address is a network of one.
pub(super) fn networks(setting: &str, texts: &[String]) -> anyhow::Result<Vec<IpNet>> {
    let network = |text: &String| {
        let one = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse().or_else(|_| one()).map_err(|_| {
            anyhow::anyhow!("{setting} has {text:?}; give addresses or networks such as 10.0.0.0/8")
        })
    };
    texts.iter().map(network).collect()
}
