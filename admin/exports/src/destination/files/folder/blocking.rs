//! Work on the file system, on a blocking thread.

use crate::error::ExportError;
use rustix::io::Errno;
use std::io;
use tokio::task::spawn_blocking;

/// Runs work on the file system on a blocking thread.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ExportError> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| customer_error(&error)),
        Err(_) => Err(ExportError::retryable("The file could not be written.")),
    }
}

/// Error in words for customers, who do not know where on the server the folder is.
fn customer_error(error: &io::Error) -> ExportError {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => ExportError::retryable(
            "The disk for exports is full. Ask the server's operator for disk space.",
        ),
        Some(Errno::NOENT) => ExportError::permanent(
            "The server's folder for exports is not there. Ask its operator to create it.",
        ),
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => ExportError::permanent(
            "The server may not write there. Ask its operator to let it, or change the path.",
        ),
        Some(Errno::LOOP | Errno::XDEV) => ExportError::permanent(
            "A link is in the way, and exports follow none. Change the path.",
        ),
        Some(Errno::NOTDIR | Errno::ISDIR | Errno::EXIST) => ExportError::permanent(
            "A file is where a folder is needed, or a folder where a file is. Change the path.",
        ),
        Some(Errno::NAMETOOLONG | Errno::INVAL) => {
            ExportError::permanent("The path cannot be used for a file. Change it.")
        }
        _ => ExportError::retryable("The file could not be written."),
    }
}
