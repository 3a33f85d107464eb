//! Names and files in memory.

use super::dice::Dice;
use super::inode::{Change, Inode};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryFs {
    world: Arc<Mutex<World>>,
    /// Called before writes and syncs.
    pause: Option<fn()>,
}

/// A failure to come.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Calls that change something (writes, syncs, names) and still succeed before it.
    pub after: u32,
    /// How the next one fails.
    pub kind: FaultKind,
}

/// How a call fails.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// EIO. Of a write or a sync, a part may have happened; after a sync, all of it counts as
    /// clean.
    Io,
    /// ENOSPC, likewise.
    NoSpace,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) inodes: BTreeMap<u64, Inode>,
    /// Names as a process sees them.
    pub(super) names: BTreeMap<PathBuf, u64>,
    /// Names as they are on the disk.
    pub(super) durable_names: BTreeMap<PathBuf, u64>,
    pub(super) pending: Vec<NameChange>,
    pub(super) locks: BTreeSet<PathBuf>,
    /// Rises with every crash: what was open before is gone.
    pub(super) epoch: u64,
    pub(super) inode_next: u64,
    pub(super) random: u64,
    /// Calls so far that changed something.
    pub(super) calls: u64,
    pub(super) fault: Option<Fault>,
    pub(super) room_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Set(PathBuf, u64),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, u64),
}

impl NameChange {
    /// The name that changes, the new one of a rename; both are in one directory.
    fn path(&self) -> &Path {
        match self {
            Self::Set(path, _) | Self::Remove(path) | Self::Rename(_, path, _) => path,
        }
    }
}

impl MemoryFs {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls this before each write and sync of a file, for who decides which thread runs then.
    #[must_use]
    pub fn with_pause(self, pause: fn()) -> Self {
        Self {
            pause: Some(pause),
            ..self
        }
    }

    pub(super) fn pause(&self) {
        if let Some(pause) = self.pause {
            pause();
        }
    }

    /// Cuts the power. Unsynced bytes are lost, torn or garbage and unsynced names lost, as the
    /// seed decides; open files and locks are void.
    pub fn crash(&self, seed: u64) {
        let mut world = self.world();
        let mut dice = Dice::new(seed);
        for inode in world.inodes.values_mut() {
            inode.crash(&mut dice);
        }
        // A journal keeps the order of names; not every file system has one.
        let in_order = dice.below(2) == 0;
        let pending = std::mem::take(&mut world.pending);
        let kept = dice.below(pending.len() as u64 + 1);
        for (index, change) in pending.iter().enumerate() {
            let keep = match in_order {
                true => (index as u64) < kept,
                false => dice.below(2) == 0,
            };
            if keep {
                apply(&mut world.durable_names, change);
            }
        }
        world.drop_orphans();
        world.names = world.durable_names.clone();
        let named: BTreeSet<u64> = world.names.values().copied().collect();
        world.inodes.retain(|inode, _| named.contains(inode));
        world.locks.clear();
        world.epoch += 1;
        world.fault = None;
    }

    /// Makes a call fail; `None` takes a failure back that has not happened yet.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.world().fault = fault;
    }

    /// Whether a failure set before is still to come.
    #[must_use]
    pub fn has_fault(&self) -> bool {
        self.world().fault.is_some()
    }

    /// Limits the bytes all files may have; `None` is no limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.world().room_bytes = bytes;
    }

    /// A file's bytes as a process sees them.
    #[must_use]
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.world();
        let inode = world.names.get(path)?;
        Some(world.inodes.get(inode)?.live.clone())
    }

    /// Puts a file there, durable.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut world = self.world();
        for dir in path.ancestors().skip(1) {
            if world.check_parent(&dir.join("of")).is_err() {
                let inode = world.add_inode(Inode::dir());
                world.names.insert(dir.to_owned(), inode);
                world.durable_names.insert(dir.to_owned(), inode);
            }
        }
        let inode = world.add_inode(Inode::default());
        if let Some(file) = world.inodes.get_mut(&inode) {
            file.change(Change::Write {
                offset: 0,
                bytes: bytes.to_vec(),
            });
            file.sync();
        }
        world.names.insert(path.to_owned(), inode);
        world.durable_names.insert(path.to_owned(), inode);
    }

    /// Gives a file another name, durably, as `ln` does.
    pub fn link(&self, path: &Path, other: &Path) {
        let mut world = self.world();
        if let Some(inode) = world.names.get(path).copied() {
            world.names.insert(other.to_owned(), inode);
            world.durable_names.insert(other.to_owned(), inode);
        }
    }

    /// Has bytes of a file be refused whenever they are read, until the file is made anew.
    pub fn set_unreadable(&self, path: &Path, bytes: Range<u64>) {
        let mut world = self.world();
        let inode = world.names.get(path).copied();
        if let Some(file) = inode.and_then(|inode| world.inodes.get_mut(&inode)) {
            file.unreadable.push(bytes);
        }
    }

    /// All files, by name.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let world = self.world();
        let is_file = |inode| world.inodes.get(inode).is_some_and(|inode| !inode.is_dir);
        let files = world.names.iter().filter(|(_, inode)| is_file(*inode));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// Calls so far that changed something: writes, syncs, names.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.world().calls
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: &NameChange) {
    match change {
        NameChange::Set(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        NameChange::Remove(path) => {
            names.remove(path);
        }
        NameChange::Rename(from, to, inode) => {
            if names.get(from) == Some(inode) {
                names.remove(from);
            }
            names.insert(to.clone(), *inode);
        }
    }
}

impl World {
    /// Counts a changing call down to the failure that is due.
    pub(super) fn step(&mut self) -> io::Result<()> {
        self.calls += 1;
        match &mut self.fault {
            Some(Fault { after: 0, kind }) => {
                let errno = match kind {
                    FaultKind::Io => Errno::IO,
                    FaultKind::NoSpace => Errno::NOSPC,
                };
                self.fault = None;
                Err(errno.into())
            }
            Some(fault) => {
                fault.after -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The chance of this moment.
    pub(super) fn dice(&self) -> Dice {
        Dice::new(self.calls)
    }

    pub(super) fn add_inode(&mut self, inode: Inode) -> u64 {
        self.inode_next += 1;
        self.inodes.insert(self.inode_next, inode);
        self.inode_next
    }

    /// Whether a name can be made: its directory is there. The root always is.
    pub(super) fn check_parent(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(dir) if dir.parent().is_some() && !self.names.contains_key(dir) => {
                Err(io::ErrorKind::NotFound.into())
            }
            _ => Ok(()),
        }
    }

    /// Makes the names in one directory durable, in the order in which they changed.
    pub(super) fn sync_names(&mut self, dir: &Path) {
        let (synced, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|change| change.path().parent() == Some(dir));
        self.pending = pending;
        for change in &synced {
            apply(&mut self.durable_names, change);
        }
    }

    /// What lies in a directory that is gone is gone.
    fn drop_orphans(&mut self) {
        // Directories come before what is in them.
        let mut there = BTreeSet::new();
        self.durable_names.retain(|path, _| {
            let is_there = path
                .parent()
                .is_none_or(|dir| dir.parent().is_none() || there.contains(dir));
            if is_there {
                there.insert(path.clone());
            }
            is_there
        });
    }

    pub(super) fn rename(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.pending.push(change);
    }

    /// Whether files may grow by so many bytes.
    pub(super) fn check_room(&self, more: usize) -> io::Result<()> {
        let used = |inode| self.inodes.get(inode).map_or(0, |file| file.live.len());
        let used: usize = self.names.values().map(used).sum();
        match self.room_bytes {
            Some(room) if more > 0 && (used + more) as u64 > room => Err(Errno::NOSPC.into()),
            _ => Ok(()),
        }
    }
}
