//! Choice of ClickHouse: the embedded engine, or an existing server.

use super::addresses::networks;
use super::clickhouse_url::addresses;
use super::paths::absolute;
use super::settings::ClickHouseSettings;
use anyhow::{Context, bail};
use ipnet::IpNet;
use millrace_clickhouse::{InsertQuorum, Replication, Tls};
use millrace_embedded::{ADMIN, PROJECT, READER, ShardAddress, Source};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Least memory of the embedded ClickHouse, for its caches and one insert.
const CLICKHOUSE_BYTES_MIN: u64 = 256 * 1024 * 1024;
/// Least length of a chosen password of its user. Tokens that statements can print are computed
/// from it, so it can be guessed without asking the engine.
const PASSWORD_LENGTH_MIN: usize = 20;
/// Name of the one cluster of ClickHouse Cloud.
const CLOUD_CLUSTER: &str = "default";

/// ClickHouse that stores events.
#[derive(Clone, Debug)]
pub enum Engine {
    /// Embedded engine, a child process.
    Embedded {
        /// Address it listens on; port 0 picks one.
        listen: SocketAddr,
        /// Port of the native protocol, if it is served.
        native_port: Option<u16>,
        /// Networks that its user may come from beside loopback; empty: the default of the mode.
        networks: Vec<IpNet>,
        /// Path of `libchdb.so`, when the user names it.
        library: Option<PathBuf>,
        /// Memory limit, in bytes.
        memory_bytes_max: u64,
        /// User to insert and query as.
        user: String,
        /// Password of that user; generated at the first start by default.
        password: Option<String>,
        /// Folder that backups are written to and read from.
        backup_dir: PathBuf,
        /// External sources that this user may access.
        sources: Vec<Source>,
        /// Native addresses of the shards of its cluster, if it is one of them.
        shards: Vec<ShardAddress>,
        /// Address behind its gate, for the process that supervises it.
        direct: DirectAddress,
    },
    /// Existing server or cluster.
    Server {
        /// URL of its HTTP interface.
        url: String,
        /// URLs of other hosts of the cluster.
        other_urls: Vec<String>,
        /// Trusted certificate authorities, where the URL begins with `https://`.
        tls: Option<Tls>,
        /// User to insert as.
        user: String,
        /// Password of the user.
        password: String,
        /// Cluster over whose shards rows are spread.
        cluster: Option<String>,
        /// Replication of the cluster's tables.
        replication: Replication,
        /// Replicas that must have an insert before it counts as stored.
        insert_quorum: Option<InsertQuorum>,
    },
}

/// Address of the embedded engine itself, which only the process that supervises it knows: all
/// others come through the engine's gate, whose places strangers may fill.
#[derive(Clone, Debug, Default)]
pub struct DirectAddress(Arc<OnceLock<SocketAddr>>);

impl DirectAddress {
    /// Sets the address, for all copies of the configuration and for good.
    pub fn set(&self, address: SocketAddr) {
        let _ = self.0.set(address);
    }

    /// Address of an engine that this process supervises.
    #[must_use]
    pub fn get(&self) -> Option<SocketAddr> {
        self.0.get().copied()
    }
}

/// Checks the settings of ClickHouse.
pub(super) fn engine_of(settings: &ClickHouseSettings, data_dir: &Path) -> anyhow::Result<Engine> {
    let Some(url) = &settings.clickhouse_url else {
        check_embedded(settings)?;
        return Ok(Engine::Embedded {
            listen: settings.clickhouse_addr.resolved("clickhouse_addr")?,
            native_port: settings.clickhouse_native_port,
            networks: networks("clickhouse_networks", &settings.clickhouse_networks)?,
            library: settings.libchdb.clone(),
            memory_bytes_max: settings.clickhouse_memory.as_u64(),
            user: settings
                .clickhouse_user
                .clone()
                .unwrap_or_else(|| "millrace".to_owned()),
            password: settings.clickhouse_password.clone(),
            backup_dir: match &settings.clickhouse_backup_dir {
                Some(dir) => absolute(dir)?,
                None => data_dir.join("clickhouse/backups"),
            },
            sources: sources(&settings.clickhouse_sources)?,
            shards: shards(&settings.clickhouse_shards)?,
            direct: DirectAddress::default(),
        });
    };
    reject_embedded_settings(settings)?;
    let addresses = addresses(url)?;
    check_cluster(settings, addresses.len())?;
    let mut addresses = addresses.into_iter();
    Ok(Engine::Server {
        url: addresses.next().unwrap_or_default(),
        other_urls: addresses.collect(),
        tls: tls_of(url, settings.clickhouse_ca_file.as_deref())?,
        user: settings
            .clickhouse_user
            .clone()
            .unwrap_or_else(|| "default".to_owned()),
        password: settings.clickhouse_password.clone().unwrap_or_default(),
        cluster: cluster_of(settings),
        replication: settings.clickhouse_replication.unwrap_or_default(),
        insert_quorum: quorum_of(settings)?,
    })
}

/// Cluster of the configuration; that of ClickHouse Cloud has a name of its own.
fn cluster_of(settings: &ClickHouseSettings) -> Option<String> {
    let is_cloud = settings.clickhouse_replication == Some(Replication::Cloud);
    let cluster = settings.clickhouse_cluster.clone();
    cluster.or_else(|| is_cloud.then(|| CLOUD_CLUSTER.to_owned()))
}

/// Checks the settings of a cluster against each other.
fn check_cluster(settings: &ClickHouseSettings, addresses: usize) -> anyhow::Result<()> {
    if cluster_of(settings).is_some() {
        return Ok(());
    }
    if let Some(replication) = settings.clickhouse_replication {
        bail!(
            "clickhouse_replication is {replication} and clickhouse_cluster is not set; name the \
             cluster in clickhouse_cluster, or unset the replication"
        );
    }
    if addresses > 1 {
        bail!(
            "clickhouse_url has {addresses} addresses and clickhouse_cluster is not set; name the \
             cluster of these hosts in clickhouse_cluster, or give one address"
        );
    }
    Ok(())
}

/// Checks the insert quorum, which needs a cluster.
fn quorum_of(settings: &ClickHouseSettings) -> anyhow::Result<Option<InsertQuorum>> {
    let Some(quorum) = settings.clickhouse_insert_quorum else {
        return Ok(None);
    };
    if settings.clickhouse_cluster.is_none() {
        bail!(
            "clickhouse_insert_quorum is {quorum} and clickhouse_cluster is not set; name the \
             cluster of the replicas in clickhouse_cluster, or unset the quorum"
        );
    }
    Ok(Some(quorum))
}

/// Parses the names of sources.
fn sources(names: &[String]) -> anyhow::Result<Vec<Source>> {
    let names = names.iter().filter(|name| !name.trim().is_empty());
    names
        .map(|name| name.parse().context("clickhouse_sources cannot be used"))
        .collect()
}

/// Parses the addresses of shards.
fn shards(addresses: &[String]) -> anyhow::Result<Vec<ShardAddress>> {
    let addresses = addresses
        .iter()
        .filter(|address| !address.trim().is_empty());
    addresses
        .map(|address| address.parse().context("clickhouse_shards cannot be used"))
        .collect()
}

/// Rejects settings of the embedded ClickHouse where a server is configured.
fn reject_embedded_settings(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    let given = [
        (
            "clickhouse_native_port",
            settings.clickhouse_native_port.is_some(),
        ),
        (
            "clickhouse_networks",
            !settings.clickhouse_networks.is_empty(),
        ),
        (
            "clickhouse_backup_dir",
            settings.clickhouse_backup_dir.is_some(),
        ),
        (
            "clickhouse_sources",
            !settings.clickhouse_sources.is_empty(),
        ),
        ("clickhouse_shards", !settings.clickhouse_shards.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((name, _)) => bail!(
            "{name} is set, and so is clickhouse_url; unset {name}: a ClickHouse server has \
             settings and grants of its own for that"
        ),
    }
}

/// Checks the settings of the embedded ClickHouse.
fn check_embedded(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    let memory = settings.clickhouse_memory;
    if memory.as_u64() < CLICKHOUSE_BYTES_MIN {
        bail!("clickhouse_memory is {memory}; give at least 256 MiB, such as 2GiB");
    }
    if let Some(user) = &settings.clickhouse_user
        && !is_user_name(user)
    {
        bail!(
            "clickhouse_user is {user:?}; give the embedded ClickHouse a name of letters, digits and _ that begins \
             with a letter, and none of default, {ADMIN}, {READER} and {PROJECT}"
        );
    }
    if let Some(password) = &settings.clickhouse_password
        && !is_long_password(password)
    {
        bail!(
            "clickhouse_password is shorter than {PASSWORD_LENGTH_MIN} characters, so it could be guessed; omit it, and \
             the first start creates one, or give a longer one, such as that of `openssl rand -hex 16`"
        );
    }
    if settings.clickhouse_ca_file.is_some() {
        bail!("clickhouse_ca_file is set and clickhouse_url is not; unset it");
    }
    if let Some(quorum) = settings.clickhouse_insert_quorum {
        bail!(
            "clickhouse_insert_quorum is {quorum}, and the embedded ClickHouse has no replicas; unset it, or give \
             the server of a cluster with clickhouse_url and clickhouse_cluster"
        );
    }
    if let Some(replication) = settings.clickhouse_replication {
        bail!(
            "clickhouse_replication is {replication}, and the embedded ClickHouse is not a cluster; give \
             the hosts of that cluster with clickhouse_url"
        );
    }
    if let Some(cluster) = &settings.clickhouse_cluster {
        bail!(
            "clickhouse_cluster is {cluster:?}, and the embedded ClickHouse is not a cluster; give \
             the server of that cluster with clickhouse_url"
        );
    }
    Ok(())
}

/// Returns true for a password that nobody guesses.
#[must_use]
pub fn is_long_password(password: &str) -> bool {
    password.chars().count() >= PASSWORD_LENGTH_MIN
}

/// Returns true for a name that the engine's users can have beside its own ones.
fn is_user_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_taken = ["default", ADMIN, READER].contains(&name) || name.starts_with(PROJECT);
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(is_word)
        && !is_taken
}

/// Reads the certificate authorities, once: a change needs a restart.
fn tls_of(url: &str, ca_file: Option<&Path>) -> anyhow::Result<Option<Tls>> {
    match (url.starts_with("https://"), ca_file) {
        (false, None) => Ok(None),
        (false, Some(_)) => bail!(
            "clickhouse_ca_file is set and clickhouse_url begins with http://; begin it with https://, or unset the file"
        ),
        (true, Some(file)) => Tls::trusting(ca_file).map(Some).with_context(|| {
            format!(
                "clickhouse_ca_file is {}; give a PEM file with the certificate of the authority that vouches for ClickHouse",
                file.display()
            )
        }),
        (true, None) => Tls::trusting(None).map(Some).context(
            "clickhouse_url begins with https://; install the system's ca-certificates, or name a PEM file with the authority in clickhouse_ca_file",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_user_has_a_plain_name_of_its_own() {
        let table = [
            ("millrace", true),
            ("m_2", true),
            ("", false),
            ("2m", false),
            ("me@example.com", false),
            ("default", false),
            ("admin", false),
            ("reader", false),
            ("project", false),
            ("project_7", false),
        ];
        for (name, expected) in table {
            assert_eq!(is_user_name(name), expected, "{name}");
        }
    }
}
