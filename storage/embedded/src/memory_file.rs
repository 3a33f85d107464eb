//! Sealed files in memory: no statement and no other process can change what is in them.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// A file in memory that cannot be changed any more.
pub(crate) struct MemoryFile(OwnedFd);

// === impl MemoryFile ===

impl MemoryFile {
    /// Writes and seals a file.
    pub(crate) fn new(name: &str, text: &str) -> io::Result<Self> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let count = rustix::io::write(&file, rest)?;
            rest = rest.get(count..).unwrap_or_default();
        }
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Self(file))
    }

    /// Path by which this process opens the file, while the value lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_is_read_and_never_written() {
        let file = MemoryFile::new("test", "text").unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "text");
        let written = rustix::io::write(&file.0, b"more");
        assert_eq!(written, Err(rustix::io::Errno::PERM));
    }
}
