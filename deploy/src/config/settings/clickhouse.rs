//! Settings of ClickHouse: the embedded engine, or an existing server.

use super::listen::{ListenAddress, listen_address};
use super::values::size;
use crate::numbers::port;
use bytesize::ByteSize;
use clap::Args;
use millrace_clickhouse::{InsertQuorum, Replication};
use std::path::PathBuf;

/// Settings of ClickHouse.
#[derive(Args, Clone, Debug)]
pub struct ClickHouseSettings {
    /// Listen address of the embedded ClickHouse
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_ADDR",
        value_parser = listen_address,
        default_value = "127.0.0.1:8123",
        value_name = "ADDR"
    )]
    pub clickhouse_addr: ListenAddress,
    /// Port of the embedded ClickHouse's native protocol, on the host of `clickhouse_addr`; none by
    /// default
    ///
    /// `millrace clickhouse` by itself takes 9000 where `clickhouse_addr` has port 8123.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_NATIVE_PORT",
        value_parser = port,
        value_name = "PORT"
    )]
    pub clickhouse_native_port: Option<u16>,
    /// Networks from which `clickhouse_user` may connect to the embedded ClickHouse, as in
    /// `10.0.0.0/8`; only loopback by default
    ///
    /// Loopback is always among them. With `millrace clickhouse` by itself any network is the
    /// default. Other users may connect from anywhere. Connections from these networks have places
    /// apart from those of all others.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_NETWORKS",
        value_delimiter = ',',
        value_name = "NETWORK,…"
    )]
    pub clickhouse_networks: Vec<String>,
    /// URL of a ClickHouse server's HTTP interface; without it the embedded ClickHouse is used
    ///
    /// Such as `https://clickhouse.example.com:8443`. Of a cluster several of its hosts, with
    /// commas between them: when one fails, the next one serves.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_URL",
        value_name = "URL,…"
    )]
    pub clickhouse_url: Option<String>,
    /// PEM file of the CA that signed the certificate of `clickhouse_url`; the system's CAs by
    /// default
    ///
    /// The system's CAs are those of `SSL_CERT_FILE`, where that is set.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_CA_FILE",
        value_name = "FILE"
    )]
    pub clickhouse_ca_file: Option<PathBuf>,
    /// ClickHouse user for inserts and queries; by default `millrace` in the embedded ClickHouse,
    /// `default` in a server
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_USER",
        value_name = "NAME"
    )]
    pub clickhouse_user: Option<String>,
    /// Password of `clickhouse_user`; by default generated at the first start for the embedded
    /// ClickHouse, empty for a server
    ///
    /// One for the embedded ClickHouse has 20 characters at least.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_PASSWORD",
        hide_env_values = true,
        value_name = "TEXT"
    )]
    pub clickhouse_password: Option<String>,
    /// Name of the cluster in ClickHouse over whose shards rows are spread; without it one server
    /// has all rows
    ///
    /// It is its name in ClickHouse's `remote_servers`. All nodes need the same value.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_CLUSTER",
        value_name = "NAME"
    )]
    pub clickhouse_cluster: Option<String>,
    /// Replication of the cluster's tables: `keeper` by default, `database`, `none` or `cloud`
    ///
    /// `keeper`: replicated tables, made by `ON CLUSTER`, with the macros `{shard}` and
    /// `{replica}`. `database`: in a database of engine `Replicated`. `none`: each shard is one
    /// host with plain tables, and `clickhouse_url` names each of them. `cloud`: ClickHouse Cloud,
    /// which needs no `clickhouse_cluster`.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_REPLICATION",
        value_name = "NAME"
    )]
    pub clickhouse_replication: Option<Replication>,
    /// Number of replicas that must store an insert: 2 or more, or `auto` for a majority; one by
    /// default
    ///
    /// With a quorum, exports and persons read only rows that reached it, and inserts of a table
    /// run one after the other. All nodes need the same value.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_INSERT_QUORUM",
        value_name = "REPLICAS"
    )]
    pub clickhouse_insert_quorum: Option<InsertQuorum>,
    /// Memory limit of the embedded ClickHouse
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_MEMORY",
        value_parser = size,
        default_value = "2GiB",
        value_name = "SIZE"
    )]
    pub clickhouse_memory: ByteSize,
    /// Folder for backups of the embedded ClickHouse; <data dir>/clickhouse/backups by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_BACKUP_DIR",
        value_name = "DIR"
    )]
    pub clickhouse_backup_dir: Option<PathBuf>,
    /// External data sources that `clickhouse_user` and `admin` may access in the embedded
    /// ClickHouse, as in `s3,url`; none by default
    ///
    /// Sources are `azure`, `file`, `hdfs`, `mongodb`, `mysql`, `postgresql`, `redis`, `remote`,
    /// `s3`, `sqlite` and `url`. A source of the network also opens the ports of this machine to
    /// these users. `file` and `sqlite` reach the folders of ClickHouse, and so the rows of all
    /// projects: there are no users `reader` and `project` then.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_SOURCES",
        value_delimiter = ',',
        value_name = "NAME,…"
    )]
    pub clickhouse_sources: Vec<String>,
    /// Native addresses of all shards of a cluster of embedded ClickHouse, as in
    /// `ch1:9000,ch2:9000`
    ///
    /// For `millrace clickhouse` by itself, in the same order on each of them, with the same
    /// `clickhouse_user` and `clickhouse_password`. The nodes name the cluster `millrace` in
    /// `clickhouse_cluster`, with `clickhouse_replication` `none`. It opens all outgoing
    /// connections to the engine, as a source of the network does.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_SHARDS",
        value_delimiter = ',',
        value_name = "ADDR,…"
    )]
    pub clickhouse_shards: Vec<String>,
    /// File of libchdb, the library of the embedded ClickHouse; by default where `make run` puts it
    #[arg(long, global = true, env = "MILLRACE_LIBCHDB", value_name = "FILE")]
    pub libchdb: Option<PathBuf>,
}
