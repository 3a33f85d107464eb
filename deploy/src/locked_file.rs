//! File lock that ends with its owner.

use std::fs::File;
use std::ops::{Deref, DerefMut};

/// File that is, or may be, locked; dropping it unlocks it. Closing it would not suffice: a child
/// process that another thread has forked and that has not run its program yet has the same open
/// file, and would keep the lock for that long.
#[derive(Debug)]
pub struct LockedFile(pub File);

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // A lock that cannot be released is released once all have closed the file.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::NamedTempFile;

    #[test]
    fn a_lock_ends_with_its_owner_even_if_a_child_process_has_the_file_open() {
        let file = NamedTempFile::new().unwrap();
        let opened = LockedFile(file.reopen().unwrap());
        opened.try_lock().unwrap();
        let _childs = opened.try_clone().unwrap();
        let other = file.reopen().unwrap();
        assert!(other.try_lock().is_err());
        drop(opened);
        other.try_lock().unwrap();
    }
}
