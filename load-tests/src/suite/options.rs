//! Options of the suite.

use crate::clickhouse::ClickHouse;
use std::path::PathBuf;
use std::time::Duration;

/// Options of the suite.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the server's program.
    pub server: PathBuf,
    /// Path of this program, which also runs the baselines.
    pub load: PathBuf,
    /// A folder in memory; about 8 GiB of it are used at a time.
    pub memory_dir: PathBuf,
    /// A folder on the disk to be measured.
    pub disk_dir: PathBuf,
    /// Folder for plots and JSON.
    pub out: PathBuf,
    /// File of the results page.
    pub results: PathBuf,
    /// File that gets a line per run.
    pub history: PathBuf,
    /// True for a second or less per figure, to check that everything works.
    pub quick: bool,
    /// Length of the soak and the flood, if not the default.
    pub soak: Option<Duration>,
    /// Names of the cases to run; empty runs all.
    pub only: Vec<String>,
    /// criterion's folder, to show its results on the page as well.
    pub criterion: Option<PathBuf>,
    /// ClickHouse that all servers ship to. By default they ship nowhere, and cases that need an
    /// engine start the embedded one.
    pub clickhouse: Option<ClickHouse>,
    /// Command line, for the results page.
    pub command: String,
}
