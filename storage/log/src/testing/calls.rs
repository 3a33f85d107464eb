//! Implementation of the file system traits for a [`MemoryFs`].

use super::inode::{Change, Inode};
use super::memory::{DiskState, MemoryFs, NameChange};
use super::seeded_rng::SeededRng;
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
        let mut state = self.state();
        if state.names.contains_key(dir) {
            return Ok(false);
        }
        state.check_parent(dir)?;
        state.step()?;
        let inode = state.add_inode(Inode::dir());
        state.rename(NameChange::Set(dir.to_owned(), inode));
        Ok(true)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.step()?;
        let inode = match state.names.get(path).copied() {
            Some(inode) => {
                if let Some(file) = state.inodes.get_mut(&inode) {
                    file.change(Change::Length(0));
                }
                inode
            }
            None => {
                state.check_parent(path)?;
                let inode = state.add_inode(Inode::default());
                state.rename(NameChange::Set(path.to_owned(), inode));
                inode
            }
        };
        Ok(self.file(inode, state.epoch))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let state = self.state();
        match state.names.get(path) {
            Some(&inode) => Ok(self.file(inode, state.epoch)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let inode = state.names.get(from).copied();
        let inode = inode.ok_or(io::ErrorKind::NotFound)?;
        state.rename(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.rename(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.sync_names(dir);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let is_file = |inode| state.inodes.get(inode).is_some_and(|inode| !inode.is_dir);
        let files = state.names.iter().filter(|(_, inode)| is_file(*inode));
        let names = files.map(|(path, _)| path);
        let names = names.filter(|path| path.parent() == Some(dir));
        let names = names.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        Ok(names.collect())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        let mut state = self.state();
        state.check_parent(path)?;
        if !state.locks.insert(path.to_owned()) {
            return Ok(None);
        }
        Ok(Some(Box::new(MemoryLock {
            fs: self.clone(),
            path: path.to_owned(),
            epoch: state.epoch,
        })))
    }

    fn random(&self) -> u64 {
        let mut state = self.state();
        state.random += 1;
        SeededRng::new(state.random).next_u64()
    }
}

impl LockGuard for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut state = self.fs.state();
        if state.epoch == self.epoch {
            state.locks.remove(&self.path);
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
    /// Runs `act` on the file; a file opened before a crash is gone.
    fn with<T>(
        &self,
        act: impl FnOnce(&mut DiskState, &mut Inode) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.fs.state();
        if state.epoch != self.epoch {
            return Err(Errno::BADF.into());
        }
        // Taken out of the map meanwhile, so that both can be borrowed.
        let mut inode = state.inodes.remove(&self.inode).unwrap_or_default();
        let result = act(&mut state, &mut inode);
        state.inodes.insert(self.inode, inode);
        result
    }

    fn grow(&self, to: usize) -> io::Result<()> {
        let now = self.len()? as usize;
        self.fs.state().check_capacity(to.saturating_sub(now))
    }
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|_, inode| Ok(inode.live.len() as u64))
    }

    fn read_at(&self, out: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<()> {
        let panics = self.fs.state().read_panics();
        assert!(!panics, "a mistake of ours");
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

    /// Does not wait: no other thread would end the failure meanwhile.
    fn pause(&self, _: Duration) {}

    fn write_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.fs.pause();
        let mut bytes: Vec<u8> = Vec::new();
        for slice in slices {
            bytes.extend_from_slice(slice);
        }
        let offset = offset as usize;
        self.grow(offset + bytes.len())?;
        self.with(|state, inode| {
            let result = state.step();
            if result.is_err() {
                // Torn at any byte, or not written at all.
                bytes.truncate(state.rng().below(bytes.len() as u64 + 1) as usize);
            }
            inode.change(Change::Write { offset, bytes });
            result
        })
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        let bytes = range.end as usize;
        self.grow(bytes)?;
        self.with(|state, inode| {
            state.step()?;
            if inode.live.len() < bytes {
                inode.change(Change::Length(bytes));
            }
            Ok(())
        })
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.with(|state, inode| {
            state.step()?;
            inode.change(Change::Length(bytes as usize));
            Ok(())
        })
    }

    fn link_count(&self) -> io::Result<u64> {
        self.with(|state, _| {
            let own = state.names.values().filter(|inode| **inode == self.inode);
            Ok(own.count() as u64)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fs.pause();
        self.with(|state, inode| {
            let result = state.step();
            match &result {
                Ok(()) => inode.sync(),
                Err(_) => inode.fail_sync(&mut state.rng()),
            }
            result
        })
    }
}
