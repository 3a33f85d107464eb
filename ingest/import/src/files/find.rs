//! Expands paths, patterns and folders into files.

use super::{SourceFile, archive};
use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Failure to find files.
#[derive(Debug, Error)]
pub enum FindError {
    /// A pattern of file names is invalid.
    #[error("{pattern} is not a pattern of file names: {error}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Error in the pattern.
        error: glob::PatternError,
    },
    /// No file has this name.
    #[error("there is no file {0}; check the path")]
    Absent(String),
    /// A device, socket or named pipe, which may never end.
    #[error("{path} is {what}, and files are read; {advice}")]
    NoFile {
        /// Path of the device, socket or pipe.
        path: PathBuf,
        /// Kind of the thing at the path.
        what: &'static str,
        /// Advice for the user.
        advice: &'static str,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Cause of the failure.
        error: io::Error,
    },
}

/// Finds all files that the arguments name, in the order of their names: files, folders with all
/// that is in them, patterns such as `exports/2024-*.json.gz`, zip archives with all their
/// entries, `-` for standard input.
///
/// # Errors
/// An argument names no file, or a file cannot be read.
pub fn find(arguments: &[String]) -> Result<Vec<SourceFile>, FindError> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument == "-" {
            files.push(SourceFile {
                path: PathBuf::from("-"),
                entry: None,
                bytes: 0,
            });
            continue;
        }
        let path = Path::new(argument);
        let paths = if path.exists() {
            vec![path.to_owned()]
        } else {
            matching(argument)?
        };
        if paths.is_empty() {
            return Err(FindError::Absent(argument.clone()));
        }
        for path in paths {
            add(&path, &mut files)?;
        }
    }
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| seen.insert((file.path.clone(), file.entry.clone())));
    Ok(files)
}

fn matching(pattern: &str) -> Result<Vec<PathBuf>, FindError> {
    let paths = glob::glob(pattern).map_err(|error| FindError::Pattern {
        pattern: pattern.to_owned(),
        error,
    })?;
    paths
        .map(|path| {
            path.map_err(|error| FindError::Io {
                path: error.path().to_owned(),
                error: error.into(),
            })
        })
        .collect()
}

/// Adds a file, or all files in a folder but hidden and unfinished ones.
fn add(path: &Path, files: &mut Vec<SourceFile>) -> Result<(), FindError> {
    let at = |error| FindError::Io {
        path: path.to_owned(),
        error,
    };
    let metadata = path.metadata().map_err(at)?;
    if metadata.is_dir() {
        let entries = path.read_dir().map_err(at)?;
        let mut inside = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()
            .map_err(at)?;
        inside.sort();
        inside.retain(|path| !is_hidden(path));
        return inside.iter().try_for_each(|path| add(path, files));
    }
    check_kind(path, metadata.file_type())?;
    if path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("zip"))
    {
        files.extend(archive::entries(path).map_err(at)?);
    } else {
        files.push(SourceFile {
            path: path.to_owned(),
            entry: None,
            bytes: metadata.len(),
        });
    }
    Ok(())
}

/// Refuses things that may never end or never be written to.
///
/// A pipe of our own descriptor was opened by the shell, as in `<(zcat a.gz)` and for
/// `/dev/stdin`, and is read once.
fn check_kind(path: &Path, kind: FileType) -> Result<(), FindError> {
    let (what, advice) = if kind.is_file() || (kind.is_fifo() && is_descriptor(path)) {
        return Ok(());
    } else if kind.is_fifo() {
        ("a named pipe", "give it as standard input: - < PIPE")
    } else if kind.is_socket() {
        ("a socket", "omit it")
    } else if is_descriptor(path) {
        ("a terminal or a device", "give - for standard input")
    } else {
        ("a device", "omit it")
    };
    let path = path.to_owned();
    Err(FindError::NoFile { path, what, advice })
}

fn is_descriptor(path: &Path) -> bool {
    let folders = ["/dev/fd", "/proc/self/fd"];
    path == Path::new("/dev/stdin") || folders.iter().any(|folder| path.starts_with(folder))
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        name.starts_with('.') || name.ends_with(".part")
    })
}
