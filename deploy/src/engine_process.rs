//! Process of the embedded ClickHouse, `millrace clickhouse`: by itself, or supervised.

use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use crate::engine::ensure_password;
use crate::signals;
use crate::thread_priority::lower_priority;
use crate::{backup_dir, clickhouse_users, plain_listeners};
use anyhow::{Context, bail};
use ipnet::{IpNet, Ipv6Net};
use millrace_embedded::EngineOptions;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender};
use std::thread;

/// HTTP port beside which `millrace clickhouse` by itself serves the native protocol.
const HTTP_PORT_USUAL: u16 = 8123;
/// Port of that protocol.
const NATIVE_PORT_USUAL: u16 = 9000;

/// Runs `millrace clickhouse`, the engine itself. `parent` is the process that supervises it, if
/// any, and `direct_port` the one at which that process finds it.
///
/// # Errors
/// When a server is configured instead, or the engine cannot start.
pub fn run(config: &Config, parent: Option<u32>, direct_port: u16) -> anyhow::Result<()> {
    let Engine::Embedded {
        listen,
        native_port,
        networks,
        library,
        memory_bytes_max,
        user,
        backup_dir,
        sources,
        shards,
        ..
    } = &config.engine
    else {
        bail!("clickhouse_url names a server, so there is no embedded ClickHouse to run; unset it");
    };
    if let Some(parent) = parent {
        millrace_embedded::end_with_parent(parent)?;
        // Threads that are started from here inherit the priority.
        lower_priority();
    }
    // Before anything is written: without a library nothing is left behind.
    let library = millrace_embedded::find_library(library.as_deref())?;
    let path = config.credentials_path();
    let mut credentials = Credentials::load(&path)?.unwrap_or_default();
    ensure_password(config, &mut credentials);
    if parent.is_none() {
        credentials.clickhouse_user.clone_from(user);
        clickhouse_users::ensure(config, &mut credentials)?;
    }
    if parent.is_none() && networks.is_empty() && !listen.ip().is_loopback() {
        warn_of_open_networks(user);
    }
    if parent.is_none() {
        plain_listeners::warn_of_engine(*listen);
    }
    backup_dir::clear_unused(backup_dir);
    let options = EngineOptions {
        library,
        data_dir: config.data_dir.join("clickhouse"),
        listen: *listen,
        native_port: native_port.or_else(|| usual_native_port(listen.port(), parent)),
        direct_port,
        user: user.clone(),
        password: credentials.clickhouse_password.clone(),
        networks: networks_of(networks, listen.ip(), parent),
        users_dir: Some(clickhouse_users::dir(config)),
        memory_bytes_max: *memory_bytes_max,
        backup_dir: backup_dir.clone(),
        sources: sources.clone(),
        shards: shards.clone(),
        is_alone: parent.is_none(),
    };
    let announce = match parent {
        Some(_) => AddressReceiver::ToParent,
        None => AddressReceiver::of_file(path, credentials)?,
    };
    // A terminal's Ctrl-C reaches the whole group; a supervised engine waits for its parent's
    // SIGTERM.
    let shutdown = async move {
        if parent.is_some() {
            signals::terminate_only().await;
        } else {
            signals::terminate_or_interrupt().await;
        }
    };
    let announce = move |address| announce.announce(address);
    match millrace_embedded::run(&options, announce, shutdown)? {}
}

fn warn_of_open_networks(user: &str) {
    tracing::warn!(
        "user {user} of ClickHouse may connect from anywhere, where strangers may fill the places of its connections; \
         name the networks of the nodes with clickhouse_networks"
    );
}

/// Port of the native protocol where none was named: the usual one of an engine by itself.
fn usual_native_port(http_port: u16, parent: Option<u32>) -> Option<u16> {
    (parent.is_none() && http_port == HTTP_PORT_USUAL).then_some(NATIVE_PORT_USUAL)
}

/// Networks that the server's user may come from beside loopback. The server of an engine by itself
/// is elsewhere; another one comes from the address that it connects to.
fn networks_of(networks: &[IpNet], listen: IpAddr, parent: Option<u32>) -> Vec<IpNet> {
    if networks.is_empty() && parent.is_none() {
        return vec![IpNet::from(Ipv6Net::default())];
    }
    let own = (!listen.is_unspecified()).then(|| IpNet::from(listen));
    networks.iter().copied().chain(own).collect()
}

/// Receiver of the engine's address.
enum AddressReceiver {
    ToParent,
    /// Thread that was started before the process was confined to its folders, and ends when it has
    /// written `credentials.json`.
    ToFile(SyncSender<SocketAddr>),
}

impl AddressReceiver {
    fn of_file(path: PathBuf, mut credentials: Credentials) -> anyhow::Result<Self> {
        let (sender, receiver) = mpsc::sync_channel::<SocketAddr>(1);
        let write = move || {
            let Ok(address) = receiver.recv() else { return };
            credentials.clickhouse_url = format!("http://{address}");
            // Standard output is the engine's.
            match credentials.store(&path) {
                Ok(()) => millrace_embedded::print_line(&format!(
                    "ClickHouse answers at http://{address}, user {}, password in {}",
                    credentials.clickhouse_user,
                    path.display()
                )),
                Err(error) => tracing::error!("{error:#}"),
            }
        };
        let thread = thread::Builder::new().name("announcer".to_owned());
        thread.spawn(write).context("cannot start a thread")?;
        Ok(Self::ToFile(sender))
    }

    fn announce(self, address: SocketAddr) {
        match self {
            Self::ToParent => millrace_embedded::announce(address),
            // The thread ends only after it has received the address.
            Self::ToFile(sender) => drop(sender.send(address)),
        }
    }
}
