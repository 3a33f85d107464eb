//! Storage of a log.

/// Storage of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Memory: every instruction runs, fdatasync included, but no disk limits the speed.
    Memory,
    /// The real disk.
    Disk,
}

impl Store {
    /// Name in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }

    /// Phrase in sentences.
    #[must_use]
    pub const fn place(self) -> &'static str {
        match self {
            Self::Memory => "in memory",
            Self::Disk => "on disk",
        }
    }
}
