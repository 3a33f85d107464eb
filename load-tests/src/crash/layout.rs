//! Layout of the processes.

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
