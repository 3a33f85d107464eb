//! A disk whose power can be cut: a file system in a file, mounted by a loop device.
//!
//! Unsynced data is lost by the file system's own shutdown without writing its journal. The mount
//! options of ext4 disable everything that hides a missing sync: the journal commit every five
//! seconds, and the flush of a file that is renamed over another. XFS has no such flush, and writes
//! its journal only every half a minute, which is longer than its disks have power.

use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Size of the image, a sparse file: only written blocks take space.
const BYTES: u64 = 4 << 30;
/// Shutdown ioctl of both file systems (`EXT4_IOC_SHUTDOWN`, `XFS_IOC_GOINGDOWN`; the same number),
/// without a flush of the journal. Perl makes the call, as every Debian has it: no crate offers the
/// call, so in Rust it would be unsafe code.
const SHUTDOWN: &str = r#"
    # An XFS that has no power any more does not even open its folder: EIO.
    open(my $dir, "<", $ARGV[0]) or $! == 5 ? exit : die "$ARGV[0]: $!\n";
    my $no_log_flush = pack("L", 2);
    ioctl($dir, 0x8004587d, $no_log_flush) // die "shutdown: $!\n";
"#;
/// Longest time that killed processes may keep their files open.
const BUSY_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// File system of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FileSystem {
    /// Ext4, Debian's default.
    Ext4,
    /// XFS, Red Hat's default; at least 300 MB.
    Xfs,
}

impl FileSystem {
    /// All file systems whose power can be cut.
    pub const ALL: [Self; 2] = [Self::Ext4, Self::Xfs];

    fn make_command(self) -> Command {
        let (program, options) = match self {
            Self::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
            Self::Xfs => ("mkfs.xfs", &["-q", "-f"]),
        };
        let mut command = Command::new(program);
        command.args(options);
        command
    }

    const fn mount_options(self) -> &'static str {
        match self {
            Self::Ext4 => "loop,commit=300,noauto_da_alloc",
            Self::Xfs => "loop",
        }
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        })
    }
}

/// A mounted disk; unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    file_system: FileSystem,
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    /// Creates and mounts an empty disk in a file.
    ///
    /// # Errors
    /// This machine does not allow it.
    pub fn make(file_system: FileSystem, image: &Path, at: &Path) -> Result<Self> {
        Self::make_of(file_system, image, at, BYTES)
    }

    /// Creates and mounts an empty disk of `bytes` bytes.
    ///
    /// # Errors
    /// See [`Self::make`].
    pub fn make_of(file_system: FileSystem, image: &Path, at: &Path, bytes: u64) -> Result<Self> {
        let file = std::fs::File::create(image).context("cannot make a disk")?;
        file.set_len(bytes).context("cannot make a disk")?;
        run(file_system.make_command().arg(image))?;
        std::fs::create_dir_all(at)?;
        let disk = Self {
            file_system,
            image: image.to_owned(),
            at: at.to_owned(),
        };
        disk.mount()?;
        Ok(disk)
    }

    /// Cuts the power: unsynced data is lost, and every call on the disk fails from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cut_power(&self) -> Result<()> {
        run(Command::new("perl").args(["-e", SHUTDOWN]).arg(&self.at))
    }

    /// Restores the power. Processes with open files on the disk must be about to end.
    ///
    /// # Errors
    /// A process keeps a file open for too long, or the remains cannot be mounted.
    pub fn restore_power(&self) -> Result<()> {
        let deadline = Instant::now() + BUSY_MAX;
        while let Err(error) = run(Command::new("umount").arg(&self.at)) {
            if Instant::now() >= deadline {
                bail!("somebody still uses the disk: {error}");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        self.mount()
    }

    fn mount(&self) -> Result<()> {
        let mut command = Command::new("mount");
        command.args(["-o", self.file_system.mount_options()]);
        run(command.arg(&self.image).arg(&self.at))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazy: the mount point goes at once, the rest when the last file is closed.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.at));
    }
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}", said.trim());
    Ok(())
}
