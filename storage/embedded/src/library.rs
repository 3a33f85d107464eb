//! Search for the engine's library.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Path below the project's folder where `npm ci` installs the library.
const INSTALLED: &str = "deploy/embedded/node_modules/@chdb/lib-linux-x64-gnu/libchdb.so";

/// Reason the engine's library was not found.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The file that was named does not exist.
    #[error(
        "the ClickHouse engine library {0} does not exist; correct MILLRACE_LIBCHDB or unset it"
    )]
    NotThere(PathBuf),
    /// A folder was named instead of the file.
    #[error(
        "{0} is a folder; name the engine's library itself with MILLRACE_LIBCHDB, such as {example}, or unset it",
        example = .0.join("libchdb.so").display()
    )]
    Folder(PathBuf),
    /// The file that was named is no shared library for this machine.
    #[error(
        "{0} is not a library of this machine, so it cannot be the ClickHouse engine; correct MILLRACE_LIBCHDB or unset it"
    )]
    NotALibrary(PathBuf),
    /// The library is at none of the default paths.
    #[error(
        "the ClickHouse engine is not installed; run `npm ci --prefix deploy/embedded` (or `make run`) in the \
         project's folder, or name its libchdb.so with MILLRACE_LIBCHDB, or use a ClickHouse server with --clickhouse-url"
    )]
    NotInstalled,
}

/// Finds the library: `explicit` if given (`MILLRACE_LIBCHDB`, read by the caller), else in
/// `deploy/embedded` below the current folder, below any folder above the executable, or below the
/// folder the crate was built in.
///
/// # Errors
/// An error whose message says how to install or name the library.
pub fn find_library(explicit: Option<&Path>) -> Result<PathBuf, LibraryError> {
    if let Some(path) = explicit {
        return match path {
            _ if path.is_dir() => Err(LibraryError::Folder(path.to_owned())),
            _ if !path.is_file() => Err(LibraryError::NotThere(path.to_owned())),
            _ if !is_library(path) => Err(LibraryError::NotALibrary(path.to_owned())),
            _ => Ok(path.to_owned()),
        };
    }
    let executable = std::env::current_exe().unwrap_or_default();
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::current_dir()
        .iter()
        .map(PathBuf::as_path)
        .chain(executable.ancestors().skip(1))
        .chain(built_in.ancestors().skip(1).take(2))
        .map(|folder| folder.join(INSTALLED))
        .find(|path| path.is_file())
        .ok_or(LibraryError::NotInstalled)
}

/// Returns true if a file begins like a shared library for this machine (ELF, 64 bits, little
/// endian). Loading it shows whether it is the engine.
fn is_library(path: &Path) -> bool {
    const MAGIC: &[u8] = b"\x7fELF\x02\x01";
    /// ELF type `ET_DYN`, and machine `EM_X86_64` or `EM_AARCH64`.
    const KIND: [u8; 4] = if cfg!(target_arch = "aarch64") {
        [3, 0, 183, 0]
    } else {
        [3, 0, 62, 0]
    };
    let mut head = [0; 20];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.starts_with(MAGIC) && head.ends_with(&KIND)
}
