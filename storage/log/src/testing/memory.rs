//! Names and files in memory.

use super::dice::Dice;
use super::inode::{Change, Inode};
use crate::fs::{File, Fs, LockGuard};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryFs(Arc<Mutex<World>>);

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
    /// EIO. Of a write, a part may have happened; after a sync, the pages count as clean.
    Io,
    /// ENOSPC.
    NoSpace,
}

#[derive(Debug, Default)]
struct World {
    inodes: BTreeMap<u64, Inode>,
    /// Names as a process sees them.
    names: BTreeMap<PathBuf, u64>,
    /// Names as they are on the disk.
    durable_names: BTreeMap<PathBuf, u64>,
    pending: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    /// Rises with every crash: what was open before is gone.
    epoch: u64,
    inode_next: u64,
    random: u64,
    fault: Option<Fault>,
    room_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(PathBuf, u64),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, u64),
}

#[derive(Debug)]
struct MemoryFile {
    fs: MemoryFs,
    inode: u64,
    epoch: u64,
}

#[derive(Debug)]
struct MemoryLock {
    fs: MemoryFs,
    path: PathBuf,
    epoch: u64,
}

impl MemoryFs {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let inode = world.add_inode();
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

    /// All files, by name.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.world().names.keys().cloned().collect()
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
    fn step(&mut self) -> io::Result<()> {
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

    fn add_inode(&mut self) -> u64 {
        self.inode_next += 1;
        self.inodes.insert(self.inode_next, Inode::default());
        self.inode_next
    }

    fn rename(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.pending.push(change);
    }

    /// Whether files may grow by so many bytes.
    fn check_room(&self, more: usize) -> io::Result<()> {
        let used = |inode| self.inodes.get(inode).map_or(0, |file| file.live.len());
        let used: usize = self.names.values().map(used).sum();
        match self.room_bytes {
            Some(room) if more > 0 && (used + more) as u64 > room => Err(Errno::NOSPC.into()),
            _ => Ok(()),
        }
    }
}

// === impl Fs ===

impl Fs for MemoryFs {
    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut world = self.world();
        world.step()?;
        let inode = match world.names.get(path).copied() {
            Some(inode) => {
                if let Some(file) = world.inodes.get_mut(&inode) {
                    file.change(Change::Length(0));
                }
                inode
            }
            None => {
                let inode = world.add_inode();
                world.rename(NameChange::Set(path.to_owned(), inode));
                inode
            }
        };
        Ok(self.file(inode, world.epoch))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let world = self.world();
        match world.names.get(path) {
            Some(&inode) => Ok(self.file(inode, world.epoch)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        let inode = world.names.get(from).copied();
        let inode = inode.ok_or(io::ErrorKind::NotFound)?;
        world.rename(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        if !world.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        world.rename(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        world.pending.clear();
        world.durable_names = world.names.clone();
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = self.world();
        let names = world.names.keys().filter(|path| path.parent() == Some(dir));
        let names = names.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        Ok(names.collect())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        let mut world = self.world();
        if !world.locks.insert(path.to_owned()) {
            return Ok(None);
        }
        Ok(Some(Box::new(MemoryLock {
            fs: self.clone(),
            path: path.to_owned(),
            epoch: world.epoch,
        })))
    }

    fn random(&self) -> u64 {
        let mut world = self.world();
        world.random += 1;
        Dice::new(world.random).throw()
    }
}

impl LockGuard for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut world = self.fs.world();
        if world.epoch == self.epoch {
            world.locks.remove(&self.path);
        }
    }
}

// === impl File ===

impl MemoryFs {
    fn file(&self, inode: u64, epoch: u64) -> Arc<dyn File> {
        Arc::new(MemoryFile {
            fs: self.clone(),
            inode,
            epoch,
        })
    }
}

impl MemoryFile {
    /// Looks at the file; a file from before a crash is gone.
    fn with<T>(&self, act: impl FnOnce(&mut World, &mut Inode) -> io::Result<T>) -> io::Result<T> {
        let mut world = self.fs.world();
        if world.epoch != self.epoch {
            return Err(Errno::BADF.into());
        }
        // Out of the map for the while, so that both can be borrowed.
        let mut inode = world.inodes.remove(&self.inode).unwrap_or_default();
        let result = act(&mut world, &mut inode);
        world.inodes.insert(self.inode, inode);
        result
    }

    fn grow(&self, to: usize) -> io::Result<()> {
        let now = self.len()? as usize;
        self.fs.world().check_room(to.saturating_sub(now))
    }
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|_, inode| Ok(inode.live.len() as u64))
    }

    fn read_at(&self, out: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<()> {
        self.with(|_, inode| {
            let rest = inode.live.get(offset as usize..).unwrap_or_default();
            out.extend(rest.iter().take(bytes));
            Ok(())
        })
    }

    fn write_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut bytes: Vec<u8> = Vec::new();
        for slice in slices {
            bytes.extend_from_slice(slice);
        }
        let offset = offset as usize;
        self.grow(offset + bytes.len())?;
        self.with(|world, inode| {
            let result = world.step();
            if result.is_err() {
                bytes.truncate(bytes.len() / 2);
            }
            inode.change(Change::Write { offset, bytes });
            result
        })
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.grow(bytes as usize)?;
        self.with(|world, inode| {
            world.step()?;
            if inode.live.len() < bytes as usize {
                inode.change(Change::Length(bytes as usize));
            }
            Ok(())
        })
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.with(|world, inode| {
            world.step()?;
            inode.change(Change::Length(bytes as usize));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|world, inode| {
            let result = world.step();
            match &result {
                Ok(()) => inode.sync(),
                Err(_) => inode.fail_sync(),
            }
            result
        })
    }
}
