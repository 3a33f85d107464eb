//! What the log calls of a [`MemoryFs`].

use super::dice::Dice;
use super::inode::{Change, Inode};
use super::memory::{MemoryFs, NameChange, World};
use crate::fs::{File, Fs, LockGuard};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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

impl Fs for MemoryFs {
    fn create_dir(&self, dir: &Path) -> io::Result<bool> {
        let mut world = self.world();
        if world.names.contains_key(dir) {
            return Ok(false);
        }
        world.check_parent(dir)?;
        world.step()?;
        let inode = world.add_inode(Inode::dir());
        world.rename(NameChange::Set(dir.to_owned(), inode));
        Ok(true)
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
                world.check_parent(path)?;
                let inode = world.add_inode(Inode::default());
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

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        world.sync_names(dir);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = self.world();
        let is_file = |inode| world.inodes.get(inode).is_some_and(|inode| !inode.is_dir);
        let files = world.names.iter().filter(|(_, inode)| is_file(*inode));
        let names = files.map(|(path, _)| path);
        let names = names.filter(|path| path.parent() == Some(dir));
        let names = names.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        Ok(names.collect())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        let mut world = self.world();
        world.check_parent(path)?;
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
            let read = offset..offset.saturating_add(bytes as u64);
            if inode
                .unreadable
                .iter()
                .any(|bad| bad.start < read.end && read.start < bad.end)
            {
                return Err(Errno::IO.into());
            }
            let rest = inode.live.get(offset as usize..).unwrap_or_default();
            out.extend(rest.iter().take(bytes));
            Ok(())
        })
    }

    /// Nobody else would end it meanwhile.
    fn pause(&self, _: Duration) {}

    fn write_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.fs.pause();
        let mut bytes: Vec<u8> = Vec::new();
        for slice in slices {
            bytes.extend_from_slice(slice);
        }
        let offset = offset as usize;
        self.grow(offset + bytes.len())?;
        self.with(|world, inode| {
            let result = world.step();
            if result.is_err() {
                // Torn at any byte, or not written at all.
                bytes.truncate(world.dice().below(bytes.len() as u64 + 1) as usize);
            }
            inode.change(Change::Write { offset, bytes });
            result
        })
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        let bytes = range.end as usize;
        self.grow(bytes)?;
        self.with(|world, inode| {
            world.step()?;
            if inode.live.len() < bytes {
                inode.change(Change::Length(bytes));
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

    fn names(&self) -> io::Result<u64> {
        self.with(|world, _| {
            let own = world.names.values().filter(|inode| **inode == self.inode);
            Ok(own.count() as u64)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fs.pause();
        self.with(|world, inode| {
            let result = world.step();
            match &result {
                Ok(()) => inode.sync(),
                Err(_) => inode.fail_sync(&mut world.dice()),
            }
            result
        })
    }
}
