//! Power cuts: after each kill, the disks of who was killed lose whatever was not synced.
//!
//! In the layout of two processes each has a disk of its own, so that ClickHouse may lose its power while the
//! server runs on; in that of one they share it, and go together.

use super::disk::{Disk, FileSystem};
use super::kill::{Kind, Victim};
use super::subject::Layout;
use anyhow::Result;
use std::path::Path;

/// The disks of a folder, and their switch.
#[derive(Debug)]
pub struct Power {
    ingest: Disk,
    /// Unless it is on the other.
    engine: Option<Disk>,
}

impl Power {
    /// Disks where the processes of a folder keep their data.
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

    /// Who dies when this one loses power.
    #[must_use]
    pub const fn shared_by(&self, victim: Victim) -> Victim {
        match self.engine {
            Some(_) => victim,
            None => Victim::Both,
        }
    }

    /// Cuts the power of a victim's disks. Again does no harm.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cut(&self, victim: Victim) -> Result<()> {
        self.disks(victim).try_for_each(Disk::cut_power)
    }

    /// Gives it back, once those on them are dead.
    ///
    /// # Errors
    /// Somebody is not, or a disk cannot be mounted.
    pub fn restore(&self, victim: Victim) -> Result<()> {
        self.disks(victim).try_for_each(Disk::restore_power)
    }

    fn disks(&self, victim: Victim) -> impl Iterator<Item = &Disk> {
        let ingest = (victim != Victim::Engine || self.engine.is_none()).then_some(&self.ingest);
        let engine = self.engine.as_ref().filter(|_| victim != Victim::Ingest);
        ingest.into_iter().chain(engine)
    }
}

/// Who dies by a kill of this kind.
#[must_use]
pub const fn victim_of(kind: Kind) -> Victim {
    match kind {
        Kind::Random(victim) => victim,
        Kind::At(_) => Victim::Ingest,
        Kind::PartRename => Victim::Engine,
    }
}
