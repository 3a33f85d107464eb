//! Options of a crash test.

use super::disk::FileSystem;
use super::kill::Kind;
use anyhow::{Result, ensure};
use std::path::PathBuf;

/// Options of a crash test.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the server's program, built with the feature `failpoints` if any of the kinds needs
    /// it.
    pub server: PathBuf,
    /// Folder in which data folders are created. They are removed afterwards unless something is
    /// wrong.
    pub dir: PathBuf,
    /// Number of kills.
    pub kills: u32,
    /// Number of kills in one folder.
    pub folder_kills: u32,
    /// Number of kills between two comparisons of ClickHouse with the ledger.
    pub check_kills: u32,
    /// Kinds of kills, all equally often.
    pub kinds: Vec<Kind>,
    /// Layouts of the processes; folders take them in turn.
    pub layouts: Vec<Layout>,
    /// File system of the victims' disks, if these lose their power, too.
    pub power: Option<FileSystem>,
    /// Number of folders at the same time.
    pub jobs: usize,
    /// Seed of kinds, moments and order.
    pub seed: u64,
    /// Events sent per second to one server.
    pub events_per_second: f64,
    /// Share of the requests that are historical, 0 to 1.
    pub historical_share: f64,
    /// Share of the requests with an event to be rejected, 0 to 1.
    pub rejected_share: f64,
}

impl Options {
    /// Default options: every kind of kill and both layouts.
    #[must_use]
    pub fn new(server: PathBuf, dir: PathBuf, kills: u32) -> Self {
        Self {
            server,
            dir,
            kills,
            folder_kills: 25,
            check_kills: 10,
            kinds: Kind::all(),
            layouts: Layout::ALL.to_vec(),
            power: None,
            jobs: 1,
            seed: rand::random(),
            events_per_second: 8_000.0,
            historical_share: 0.25,
            rejected_share: 0.25,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            !self.kinds.is_empty(),
            "there is no kind of kill to choose from"
        );
        ensure!(
            !self.layouts.is_empty(),
            "there is no layout to choose from"
        );
        ensure!(self.kills > 0, "--kills must be at least 1");
        ensure!(self.folder_kills > 0, "--folder-kills must be at least 1");
        ensure!(self.check_kills > 0, "--check-kills must be at least 1");
        ensure!(self.jobs > 0, "--jobs must be at least 1");
        Ok(())
    }
}

/// Layout of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Layout {
    /// `millrace serve` with the engine as its child.
    Serve,
    /// `millrace ingest` and `millrace clickhouse`: inserts go on when the sender dies.
    Apart,
}

impl Layout {
    /// Both layouts.
    pub const ALL: [Self; 2] = [Self::Serve, Self::Apart];
}
