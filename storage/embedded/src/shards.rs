//! Shards of a cluster of engines: each engine knows the native address of all, and spreads the
//! rows of its `Distributed` tables over them.

use std::fmt::{self, Display, Formatter, Write as _};
use std::str::FromStr;

use crate::EngineOptions;

/// Name of the cluster in every engine's configuration.
pub const CLUSTER: &str = "millrace";

/// Native address of a shard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShardAddress {
    host: String,
    port: u16,
}

/// The text of no address.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is not the native address of a shard; give a host and a port, such as ch1:9000")]
pub struct UnknownAddress(String);

impl FromStr for ShardAddress {
    type Err = UnknownAddress;

    fn from_str(text: &str) -> Result<Self, UnknownAddress> {
        let unknown = || UnknownAddress(text.to_owned());
        let (host, port) = text.trim().rsplit_once(':').ok_or_else(unknown)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        // What an XML element may have, and any name or address does.
        let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:_".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_of_host) {
            return Err(unknown());
        }
        let port = port.parse::<u16>().ok().filter(|port| *port > 0);
        Ok(Self {
            host: host.to_owned(),
            port: port.ok_or_else(unknown)?,
        })
    }
}

impl Display for ShardAddress {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(formatter, "[{host}]:{port}"),
            false => write!(formatter, "{host}:{port}"),
        }
    }
}

/// Writes `remote_servers` of `config.xml`; empty without shards. All engines have the same user.
pub(crate) fn remote_servers(options: &EngineOptions) -> String {
    if options.shards.is_empty() {
        return String::new();
    }
    let (user, password) = (&options.user, escaped(&options.password));
    let mut shards = String::new();
    for ShardAddress { host, port } in &options.shards {
        let _ = write!(
            shards,
            "<shard><internal_replication>true</internal_replication><replica>\
             <host>{host}</host><port>{port}</port><user>{user}</user>\
             <password>{password}</password></replica></shard>"
        );
    }
    format!("<remote_servers><{CLUSTER}>{shards}</{CLUSTER}></remote_servers>")
}

/// Grants that the server's user needs for tables over shards.
pub(crate) fn grants(options: &EngineOptions) -> &'static str {
    match options.shards.is_empty() {
        true => "",
        false => {
            "<query>GRANT TABLE ENGINE ON Distributed</query>\
             <query>GRANT READ, WRITE ON REMOTE</query>"
        }
    }
}

/// Text of an XML element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_a_port() {
        for text in ["ch1:9000", "10.0.0.7:9001", "[fd00::1]:9000", "ch-1.svc:1"] {
            assert_eq!(text.parse::<ShardAddress>().unwrap().to_string(), text);
        }
        for text in [
            "ch1",
            ":9000",
            "ch1:0",
            "ch1:x",
            "a<b:9000",
            "ch1:70000",
            "",
        ] {
            text.parse::<ShardAddress>().unwrap_err();
        }
    }

    #[test]
    fn each_shard_is_in_the_configuration_of_every_engine() {
        let mut options = EngineOptions::for_tests();
        assert_eq!(remote_servers(&options), "");
        assert_eq!(grants(&options), "");
        options.password = "a<b&c".to_owned();
        let addresses = ["ch1:9000", "ch2:9000"];
        options.shards = Vec::from(addresses.map(|text| text.parse::<ShardAddress>().unwrap()));
        let text = remote_servers(&options);
        assert_eq!(text.matches("<shard>").count(), 2, "{text}");
        assert!(text.contains("<host>ch2</host><port>9000</port>"), "{text}");
        assert!(text.contains("<password>a&lt;b&amp;c</password>"), "{text}");
    }
}
