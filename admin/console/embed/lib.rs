//! Built pages of the console: the files that `npm run build` makes, each as it is and compressed
//! ahead, built into the program. Files that are never requested cost no memory: the system reads
//! the pages of a program when they are needed.
//!
//! `make console` builds them. Without that the crate builds, and holds no file.

#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Name of the page among the files.
pub const PAGE: &str = "index.html";
/// Beginning of names that change with their content.
pub const ASSETS: &str = "assets/";

/// File of the console.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Path of the file, such as `assets/index-x1y2.js`.
    pub name: &'static str,
    /// Start of the SHA-256 of its content, in hexadecimal.
    pub hash: &'static str,
    /// Content of the file.
    pub plain: &'static [u8],
    /// Content in gzip.
    pub gzip: &'static [u8],
    /// Content in brotli.
    pub brotli: &'static [u8],
}

/// Finds a file by its name.
#[must_use]
pub fn file(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

/// All files; none where the console was not built before the program.
#[must_use]
pub const fn files() -> &'static [File] {
    FILES
}
