//! A file system in memory: names and files.

use super::inode::{Change, Inode};
use super::seeded_rng::SeededRng;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryFs {
    state: Arc<Mutex<DiskState>>,
    /// Function called before writes and syncs.
    pause: Option<fn()>,
}

/// Fault that a later call meets.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Number of changing calls (writes, syncs, names) that still succeed before it.
    pub after: u32,
    /// Kind of the failure.
    pub kind: FaultKind,
}

/// Kind of a fault.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// EIO. A part of a write or a sync may have happened; after a sync, all of it counts as clean.
    Io,
    /// ENOSPC, in the same way.
    NoSpace,
}

#[derive(Debug, Default)]
pub(super) struct DiskState {
    pub(super) inodes: BTreeMap<u64, Inode>,
    /// Names as a process sees them.
    pub(super) names: BTreeMap<PathBuf, u64>,
    /// Names as they are on the disk.
    pub(super) durable_names: BTreeMap<PathBuf, u64>,
    pub(super) pending: Vec<NameChange>,
    pub(super) locks: BTreeSet<PathBuf>,
    /// Number of crashes: files opened before one are gone.
    pub(super) epoch: u64,
    pub(super) inode_next: u64,
    pub(super) random: u64,
    /// Number of changing calls so far.
    pub(super) calls: u64,
    pub(super) fault: Option<Fault>,
    pub(super) capacity_bytes: Option<u64>,
    /// Number of reads that still succeed before each one panics.
    pub(super) reads_before_panic: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Set(PathBuf, u64),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, u64),
}

impl NameChange {
    /// Name that changes, the new one of a rename; both are in one directory.
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

    pub(super) fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `pause` before each write and sync of a file, so that a test can schedule threads
    /// there.
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
        let mut state = self.state();
        let mut rng = SeededRng::new(seed);
        for inode in state.inodes.values_mut() {
            inode.crash(&mut rng);
        }
        // A journal keeps the order of names; not every file system has one.
        let in_order = rng.below(2) == 0;
        let pending = std::mem::take(&mut state.pending);
        let kept = rng.below(pending.len() as u64 + 1);
        for (index, change) in pending.iter().enumerate() {
            let keep = match in_order {
                true => (index as u64) < kept,
                false => rng.below(2) == 0,
            };
            if keep {
                apply(&mut state.durable_names, change);
            }
        }
        state.drop_names_without_directory();
        state.names = state.durable_names.clone();
        let named: BTreeSet<u64> = state.names.values().copied().collect();
        state.inodes.retain(|inode, _| named.contains(inode));
        state.locks.clear();
        state.epoch += 1;
        state.fault = None;
    }

    /// Sets the fault of a later call; `None` removes one that has not happened yet.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    /// Returns true if a fault that was set has not happened yet.
    #[must_use]
    pub fn has_fault(&self) -> bool {
        self.state().fault.is_some()
    }

    /// Limits the bytes of all files together; `None` is no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity_bytes = bytes;
    }

    /// Returns a file's bytes as a process sees them.
    #[must_use]
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        let inode = state.names.get(path)?;
        Some(state.inodes.get(inode)?.live.clone())
    }

    /// Writes a whole file, durably.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        for dir in path.ancestors().skip(1) {
            if state.check_parent(&dir.join("of")).is_err() {
                let inode = state.add_inode(Inode::dir());
                state.names.insert(dir.to_owned(), inode);
                state.durable_names.insert(dir.to_owned(), inode);
            }
        }
        let inode = state.add_inode(Inode::default());
        if let Some(file) = state.inodes.get_mut(&inode) {
            file.change(Change::Write {
                offset: 0,
                bytes: bytes.to_vec(),
            });
            file.sync();
        }
        state.names.insert(path.to_owned(), inode);
        state.durable_names.insert(path.to_owned(), inode);
    }

    /// Gives a file another name, durably, like `ln`.
    pub fn link(&self, path: &Path, other: &Path) {
        let mut state = self.state();
        if let Some(inode) = state.names.get(path).copied() {
            state.names.insert(other.to_owned(), inode);
            state.durable_names.insert(other.to_owned(), inode);
        }
    }

    /// Makes reads of a file's bytes fail, until the file is made anew.
    pub fn set_unreadable(&self, path: &Path, bytes: Range<u64>) {
        let mut state = self.state();
        let inode = state.names.get(path).copied();
        if let Some(file) = inode.and_then(|inode| state.inodes.get_mut(&inode)) {
            file.unreadable.push(bytes);
        }
    }

    /// Makes reads panic, as by a mistake of ours, once so many more have succeeded.
    pub fn set_panic_after_reads(&self, reads: u32) {
        self.state().reads_before_panic = Some(reads);
    }

    /// Lists all files, by name.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let state = self.state();
        let is_file = |inode| state.inodes.get(inode).is_some_and(|inode| !inode.is_dir);
        let files = state.names.iter().filter(|(_, inode)| is_file(*inode));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// Number of changing calls so far: writes, syncs, names.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
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

impl DiskState {
    /// Counts a changing call, and fails it if a fault is due.
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

    /// Counts a read; true if it is to panic.
    pub(super) fn read_panics(&mut self) -> bool {
        match &mut self.reads_before_panic {
            Some(0) => true,
            Some(reads) => {
                *reads -= 1;
                false
            }
            None => false,
        }
    }

    /// Random numbers of this moment.
    pub(super) fn rng(&self) -> SeededRng {
        SeededRng::new(self.calls)
    }

    pub(super) fn add_inode(&mut self, inode: Inode) -> u64 {
        self.inode_next += 1;
        self.inodes.insert(self.inode_next, inode);
        self.inode_next
    }

    /// Checks that a name's directory exists. The root always does.
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

    /// Removes names whose directory is gone.
    fn drop_names_without_directory(&mut self) {
        // Directories come before their contents.
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

    /// Checks that files may grow by so many bytes.
    pub(super) fn check_capacity(&self, more: usize) -> io::Result<()> {
        let used = |inode| self.inodes.get(inode).map_or(0, |file| file.live.len());
        let used: usize = self.names.values().map(used).sum();
        match self.capacity_bytes {
            Some(capacity) if more > 0 && (used + more) as u64 > capacity => {
                Err(Errno::NOSPC.into())
            }
            _ => Ok(()),
        }
    }
}
