//! Checks before a start creates anything: a start that fails here leaves nothing behind.

use crate::config::{Config, Engine};
use crate::created_dirs::CreatedDirs;
use crate::disk_room::{self, DiskRoom};
use crate::secret_key;
use crate::serve::Parts;
use anyhow::{Context, anyhow, bail};
use std::net::{SocketAddr, TcpListener};
use thiserror::Error;

/// Address with the flag that sets it.
pub type FlaggedAddress = (SocketAddr, &'static str);

/// Two settings with one address: an error of the settings, whatever runs on this machine.
#[derive(Debug, Error)]
#[error("{other_flag} is {other} and {flag} is {address}: give one of them another address")]
pub struct SameAddress {
    address: SocketAddr,
    flag: &'static str,
    other: SocketAddr,
    other_flag: &'static str,
}

/// Checks addresses, the engine's library, folders and the key of secrets. Creates nothing.
///
/// # Errors
/// A sentence that names the setting; [`SameAddress`] if two settings exclude each other.
pub fn check(config: &Config, parts: Parts) -> anyhow::Result<()> {
    if config.log_dir.exists() && !config.log_dir.is_dir() {
        bail!(
            "{} is not a folder, so no logs can be there; give another with --log-dir",
            config.log_dir.display()
        );
    }
    if parts.ingest {
        check_library(config)?;
    }
    check_free(&addresses(config, parts))?;
    if parts.admin {
        secret_key::check(config)?;
        if let Some(root) = config.export_root.as_ref().filter(|root| root.exists())
            && !root.is_dir()
        {
            bail!(
                "export_root is {}, which is not a folder; give another with --export-root",
                root.display()
            );
        }
    }
    Ok(())
}

/// Checks what the embedded engine alone needs: its library and its address.
///
/// # Errors
/// A sentence that names the setting.
pub fn check_engine(config: &Config) -> anyhow::Result<()> {
    check_library(config)?;
    check_free(&engine_addresses(config))
}

/// Warns of disks with less room than the parts may need.
pub fn warn_of_short_disks(config: &Config, parts: Parts) {
    let disks = disk_room::measure(config, parts).into_iter();
    for disk in disks.filter(DiskRoom::is_short) {
        tracing::warn!("{}: {}", disk.described(), disk_room::ADVICE);
    }
}

/// Addresses that the parts listen on, with their flags.
pub fn addresses(config: &Config, parts: Parts) -> Vec<FlaggedAddress> {
    let mut addresses = vec![(config.health_addr, "--health-addr")];
    if parts.admin {
        addresses.push((config.admin_addr, "--admin-addr"));
    }
    if parts.ingest {
        addresses.push((config.ingest_addr, "--ingest-addr"));
        addresses.extend(config.node_addr.map(|address| (address, "--node-addr")));
        addresses.extend(engine_addresses(config));
    }
    addresses
}

/// Checks that the library of the embedded engine is there.
fn check_library(config: &Config) -> anyhow::Result<()> {
    if let Engine::Embedded { library, .. } = &config.engine {
        millrace_embedded::find_library(library.as_deref())?;
    }
    Ok(())
}

/// Addresses of the embedded engine; none with a server.
fn engine_addresses(config: &Config) -> Vec<FlaggedAddress> {
    let Engine::Embedded {
        listen,
        native_port,
        ..
    } = &config.engine
    else {
        return Vec::new();
    };
    let native = native_port.map(|port| SocketAddr::new(listen.ip(), port));
    let native = native.map(|address| (address, "--clickhouse-native-port"));
    let addresses = [Some((*listen, "--clickhouse-addr")), native];
    addresses.into_iter().flatten().collect()
}

/// Creates `export_root` if it is configured, and returns what was missing. The caller holds the
/// lock of the data folder.
///
/// # Errors
/// When it cannot be created.
pub fn make_export_root(config: &Config, parts: Parts) -> anyhow::Result<CreatedDirs> {
    let root = config.export_root.as_ref().filter(|_| parts.admin);
    root.map_or(Ok(CreatedDirs::default()), |root| {
        CreatedDirs::create(root).with_context(|| {
            format!(
                "cannot create export_root, {}; give another with --export-root",
                root.display()
            )
        })
    })
}

/// Checks that all addresses are free and different: listens on all of them together for a moment.
fn check_free(addresses: &[FlaggedAddress]) -> anyhow::Result<()> {
    let mut taken: Vec<(TcpListener, SocketAddr, &'static str)> = Vec::new();
    for (address, flag) in addresses {
        let listener = TcpListener::bind(address).map_err(|error| {
            let mut ours = taken.iter();
            match ours.find(|(_, other, _)| overlap(*other, *address)) {
                Some((_, other, other_flag)) => anyhow::Error::new(SameAddress {
                    address: *address,
                    flag,
                    other: *other,
                    other_flag,
                }),
                None => anyhow!(error).context(cannot_listen(*address, flag)),
            }
        })?;
        taken.push((listener, *address, *flag));
    }
    Ok(())
}

/// Returns true if two addresses cannot be listened on together; one of them may be all addresses
/// of the machine, or an IPv4 address in the notation of IPv6. Port 0 is always a free one.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let [one_ip, other_ip] = [one, other].map(|address| address.ip().to_canonical());
    let is_any = one_ip.is_unspecified() || other_ip.is_unspecified();
    one.port() != 0 && one.port() == other.port() && (is_any || one_ip == other_ip)
}

/// Error message for an address that is in use.
pub fn cannot_listen(address: SocketAddr, flag: &str) -> String {
    format!("cannot listen on {address}; give another address with {flag}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_in_either_notation() {
        let table = [
            ("127.0.0.1:8000", "127.0.0.1:8000", true),
            ("127.0.0.1:8000", "127.0.0.1:8001", false),
            ("127.0.0.1:8000", "127.0.0.2:8000", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("127.0.0.1:8000", "0.0.0.0:8000", true),
            ("127.0.0.1:8000", "[::]:8000", true),
            ("127.0.0.1:8000", "[::ffff:127.0.0.1]:8000", true),
            ("127.0.0.1:8000", "[::ffff:127.0.0.2]:8000", false),
            ("127.0.0.1:8000", "[::ffff:0.0.0.0]:8000", true),
            ("127.0.0.1:8000", "[::1]:8000", false),
        ];
        for (one, other, expected) in table {
            let [first, second] = [one, other].map(|text| text.parse().unwrap());
            assert_eq!(overlap(first, second), expected, "{one} {other}");
            assert_eq!(overlap(second, first), expected, "{other} {one}");
        }
    }
}
