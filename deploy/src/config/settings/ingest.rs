//! Settings of ingestion: the log, workers, proxies, shutdown.

use super::listen::{ListenAddress, listen_address};
use super::values::size;
use crate::numbers::{count, seconds};
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Settings of ingestion.
#[derive(Args, Clone, Debug)]
pub struct IngestSettings {
    /// Moment at which a request is answered with success
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ACK",
        default_value = "disk",
        value_name = "WHEN"
    )]
    pub ack: AckSetting,
    /// Folder of the write-ahead logs, where events wait for ClickHouse; <data dir>/log by default
    #[arg(long, global = true, env = "MILLRACE_LOG_DIR", value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// Disk space for the write-ahead logs; by default 10 GiB, on small disks 80 % of the disk
    ///
    /// Events wait there while ClickHouse is down; when the logs are full, requests are answered
    /// 503.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_BYTES_MAX",
        value_parser = size,
        value_name = "SIZE"
    )]
    pub log_bytes_max: Option<ByteSize>,
    /// Number of threads that serve requests; one per core by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_WORKERS",
        value_parser = count::<usize>,
        value_name = "N"
    )]
    pub workers: Option<usize>,
    /// Addresses or networks of proxies whose `X-Forwarded-For`, `-Host` and `-Proto` are trusted;
    /// none by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_TRUSTED_PROXIES",
        value_delimiter = ',',
        value_name = "NET,…"
    )]
    pub trusted_proxies: Vec<String>,
    /// Listen address for the organization API of other processes, which reads the node's live
    /// stream there; none by default
    ///
    /// For several nodes. Open it to the installation's own network only: the token, which is in
    /// the catalog, goes over it as it is.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_NODE_ADDR",
        value_parser = listen_address,
        value_name = "ADDR"
    )]
    pub node_addr: Option<ListenAddress>,
    /// URL by which those processes reach `node_addr`; by default http://<node_addr>
    #[arg(long, global = true, env = "MILLRACE_NODE_URL", value_name = "URL")]
    pub node_url: Option<String>,
    /// Seconds that a shutdown goes on accepting connections while health checks report not ready
    ///
    /// As long as a load balancer takes to notice.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DRAIN_SECONDS",
        default_value_t = 0,
        value_parser = seconds::<u64>,
        value_name = "N"
    )]
    pub drain_seconds: u64,
    /// Time limit in seconds for a shutdown to finish requests and ship events, after
    /// `drain_seconds`
    #[arg(
        long,
        global = true,
        env = "MILLRACE_GRACE_SECONDS",
        default_value_t = 10,
        value_parser = seconds::<u64>,
        value_name = "N"
    )]
    pub grace_seconds: u64,
}

/// Moment at which a request is answered with success.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AckSetting {
    /// On disk: survives a crash of the process and of the machine
    Disk,
    /// In ClickHouse: can be queried when the answer arrives
    Clickhouse,
    /// Queued only: a crash loses what was not yet on disk
    Memory,
}
