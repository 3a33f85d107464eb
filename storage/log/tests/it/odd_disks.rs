//! Disks that refuse single calls, and events between two calls.

use crate::support::{DIR, append, contents, open, options, sections, segment_paths, try_open};
use millrace_log::fs::{File, Fs, LockGuard};
use millrace_log::testing::{Fault, FaultKind, MemoryFs};
use millrace_log::{Log, LogHandle, OpenError, Position};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

#[derive(Copy, Clone, PartialEq, Eq)]
enum FsCall {
    Open,
    Unlink,
    SyncDir,
}

/// Hook called before each of these calls.
type Hook = Arc<dyn Fn(FsCall, &Path) -> io::Result<()> + Send + Sync>;

/// A disk in memory, with a hook before some of its calls.
#[derive(Clone)]
struct HookedFs {
    disk: MemoryFs,
    hook: Hook,
}

impl fmt::Debug for HookedFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedFs")
    }
}

impl Fs for HookedFs {
    fn create_dir(&self, dir: &Path) -> io::Result<bool> {
        self.disk.create_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        (self.hook)(FsCall::Open, path)?;
        self.disk.open(path)
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.open_writable(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        (self.hook)(FsCall::Unlink, path)?;
        self.disk.unlink(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(FsCall::SyncDir, dir)?;
        self.disk.sync_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.disk.lock(path)
    }

    fn random(&self) -> u64 {
        self.disk.random()
    }
}

fn open_hooked(
    disk: &MemoryFs,
    hook: impl Fn(FsCall, &Path) -> io::Result<()> + Send + Sync + 'static,
) -> Result<Log, OpenError> {
    let (disk, hook) = (disk.clone(), Arc::new(hook));
    Log::open(options(), Arc::new(HookedFs { disk, hook })).map(|(log, _)| log)
}

#[test]
fn a_segment_that_is_released_while_a_reader_goes_to_it_is_skipped() {
    let disk = MemoryFs::new();
    let released: Arc<OnceLock<(LogHandle, Position)>> = Arc::default();
    let due = Arc::clone(&released);
    let mut log = open_hooked(&disk, move |call, path| {
        if let (FsCall::Open, Some((handle, below))) = (call, due.get())
            && path.ends_with("00000000000000000001.log")
        {
            assert_eq!(handle.release(*below).unwrap(), 2);
        }
        Ok(())
    })
    .unwrap();
    let positions: Vec<_> = (0..3).map(|seed| append(&mut log, seed, 1500)).collect();
    log.sync().unwrap();
    assert_eq!(positions[2].segment, 3);
    released.set((log.handle(), positions[2])).unwrap();
    let mut reader = log.handle().reader(Position::FIRST);
    let frame = reader.next().unwrap().unwrap();
    assert_eq!(frame.position, positions[2]);
}

#[test]
fn an_existing_folder_is_used_although_its_parent_cannot_be_synced() {
    let refuse = |call, dir: &Path| match call {
        FsCall::SyncDir if dir == Path::new("/") => Err(Errno::ACCESS.into()),
        _ => Ok(()),
    };
    let disk = MemoryFs::new();
    let refused = open_hooked(&disk, refuse).unwrap_err();
    assert!(
        matches!(refused, OpenError::Io { action: "make", .. }),
        "{refused}"
    );
    let disk = MemoryFs::new();
    disk.put(&Path::new(DIR).join("lock"), b"");
    open_hooked(&disk, refuse).unwrap();
}

#[test]
fn an_unused_segment_stays_only_on_a_disk_without_space() {
    for (errno, opens) in [(Errno::NOSPC, true), (Errno::IO, false)] {
        let disk = MemoryFs::new();
        let (mut log, _) = open(&disk);
        append(&mut log, 1, 100);
        log.sync().unwrap();
        drop(log);
        let unused = Path::new(DIR).join("00000000000000000002.log");
        disk.put(&unused, &[0; 64]);
        let path = unused.clone();
        let opened = open_hooked(&disk, move |call, at| match call {
            FsCall::Unlink if at == path => Err(errno.into()),
            _ => Ok(()),
        });
        match opened {
            Ok(log) => assert!(opens && contents(&log.handle()).len() == 1),
            Err(refused) => assert!(!opens, "{refused}"),
        }
        assert!(disk.read(&unused).is_some());
        open(&disk);
        assert_eq!(segment_paths(&disk, Path::new(DIR)).len(), 1);
    }
}

#[test]
fn a_log_does_not_open_on_a_disk_that_fails_meanwhile() {
    for after in 0.. {
        let fs = MemoryFs::new();
        let (mut log, _) = open(&fs);
        append(&mut log, 1, 100);
        log.sync().unwrap();
        drop(log);
        let kind = FaultKind::Io;
        fs.set_fault(Some(Fault { after, kind }));
        let opened = try_open(&fs);
        if fs.has_fault() {
            opened.unwrap();
            assert!(after > 4, "it is copied, synced and renamed");
            break;
        }
        assert!(matches!(opened, Err(OpenError::Io { .. })), "call {after}");
        assert_eq!(contents(&open(&fs).0.handle()), [sections(1, 100)]);
    }
}
