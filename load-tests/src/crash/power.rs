//! Power cuts: after each kill, the victim's disks lose all unsynced data.
//!
//! In the layout of two processes each has a disk of its own: ClickHouse may lose its power while
//! the server runs on. In the layout of one process both share a disk and die together.

use super::disk::{Disk, FileSystem};
use super::kill::{Kind, Victim};
use super::options::Layout;
use anyhow::Result;
use std::path::Path;

/// Disks of a folder, and their power switch.
#[derive(Debug)]
pub struct Power {
    ingest: Disk,
    /// Disk of the engine, unless it shares the other one.
    engine: Option<Disk>,
}

impl Power {
    /// Creates the disks where a folder's processes keep their data.
    ///
    /// # Errors
    /// This machine does not allow it.
    pub fn new(file_system: FileSystem, layout: Layout, dir: &Path) -> Result<Self> {
        let disk = |name: &str| {
            let image = dir.join(format!("{name}.disk"));
            Disk::make(file_system, &image, &dir.join(name))
        };
        Ok(Self {
            ingest: disk("ingest")?,
            engine: match layout {
                Layout::Serve => None,
                Layout::Apart => Some(disk("engine")?),
            },
        })
    }

    /// Victim of a power cut: both processes if they share a disk.
    #[must_use]
    pub const fn shared_by(&self, victim: Victim) -> Victim {
        match self.engine {
            Some(_) => victim,
            None => Victim::Both,
        }
    }

    /// Cuts the power of a victim's disks; a second cut does no harm.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cut(&self, victim: Victim) -> Result<()> {
        self.disks(victim).try_for_each(Disk::cut_power)
    }

    /// Restores the power, once the processes on the disks are dead.
    ///
    /// # Errors
    /// A process still runs, or a disk cannot be mounted.
    pub fn restore(&self, victim: Victim) -> Result<()> {
        self.disks(victim).try_for_each(Disk::restore_power)
    }

    fn disks(&self, victim: Victim) -> impl Iterator<Item = &Disk> {
        let ingest = (victim != Victim::Engine || self.engine.is_none()).then_some(&self.ingest);
        let engine = self.engine.as_ref().filter(|_| victim != Victim::Ingest);
        ingest.into_iter().chain(engine)
    }
}

/// Victim of a kill of this kind.
#[must_use]
pub const fn victim_of(kind: Kind) -> Victim {
    match kind {
        Kind::Random(victim) => victim,
        Kind::At(_) => Victim::Ingest,
        Kind::PartRename => Victim::Engine,
    }
}
