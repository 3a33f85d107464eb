//! A disk whose power can be cut: an ext4 in a file, mounted by a loop device.
//!
//! What was not synced is lost by the file system's own shutdown, which is ordered not to write its
//! journal. The mount options take away what hides a missing sync: journal commits every five seconds,
//! and the flush of a file that is renamed over another.

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Of a sparse file: only what is written takes room.
const BYTES: u64 = 4 << 30;
const OPTIONS: &str = "loop,commit=300,noauto_da_alloc";
/// `EXT4_IOC_SHUTDOWN` without a flush of the journal. By Perl, which every Debian has: a call into the
/// kernel that no crate offers would be unsafe code here.
const SHUTDOWN: &str = r#"
    open(my $dir, "<", $ARGV[0]) or die "$ARGV[0]: $!\n";
    my $no_log_flush = pack("L", 2);
    ioctl($dir, 0x8004587d, $no_log_flush) // die "shutdown: $!\n";
"#;
/// How long processes that were killed may keep their files open.
const BUSY_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A mounted disk; unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    /// Makes an empty disk in a file and mounts it.
    ///
    /// # Errors
    /// This machine does not allow it.
    pub fn make(image: &Path, at: &Path) -> Result<Self> {
        Self::make_of(image, at, BYTES)
    }

    /// The same, so large.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn make_of(image: &Path, at: &Path, bytes: u64) -> Result<Self> {
        let file = std::fs::File::create(image).context("cannot make a disk")?;
        file.set_len(bytes).context("cannot make a disk")?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image))?;
        std::fs::create_dir_all(at)?;
        let disk = Self {
            image: image.to_owned(),
            at: at.to_owned(),
        };
        disk.mount()?;
        Ok(disk)
    }

    /// Takes the power away: whatever is not synced is lost, and every call on the disk fails from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cut_power(&self) -> Result<()> {
        run(Command::new("perl").args(["-e", SHUTDOWN]).arg(&self.at))
    }

    /// Gives the power back. Whoever has files open must be about to end.
    ///
    /// # Errors
    /// Somebody keeps a file open for long, or what is left cannot be mounted.
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
        run(command.args(["-o", OPTIONS]).arg(&self.image).arg(&self.at))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // At once for its name, and for the rest when the last file is closed.
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
