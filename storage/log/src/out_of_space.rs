//! Errors of a full disk, told apart from those of a broken one.

use rustix::io::Errno;
use std::io;

/// Returns true if a disk or a descriptor table is full: it may empty again, and nothing is broken.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    let full = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| full.iter().any(|errno| errno.raw_os_error() == code))
}
